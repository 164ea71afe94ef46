// SPDX-License-Identifier: Apache-2.0
//
// Serves a miss from idle and new memory: obtains a plan from the Planner, takes the memory, orders
// the streams that used it, maps missing extents, and allocates the block. If a step fails, the
// memory that was taken becomes idle again.
//
//   plan -> take (arenas locked) -> order streams -> map -> commit, or roll back
//
// Host memory is allocated before the first change, except for what device calls may need. Taking,
// committing and rolling back cannot fail.
//
// Memory that another stream used last is borrowed: the borrower's stream waits for an event on the
// lender's stream. The host waits only if allocate_at cannot use events.
//
// All functions need the engine's lock.
#pragma once

#include <span>
#include <vector>

#include "engine/paged/config.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/extent_mover.h"
#include "engine/paged/extent_store.h"
#include "engine/paged/peak_tracker.h"
#include "engine/paged/pool/planner.h"
#include "engine/paged/stream_monitor.h"
#include "engine/paged/view_table.h"

namespace ashlar::paged {

class Stitcher {
 public:
  Stitcher(const PagedConfig& config, ExtentStore& extents, ViewTable& views, ExtentMover& mover,
           StreamMonitor& streams, PeakTracker& peaks, RequestTracer& tracer)
      : config_(config),
        extents_(extents),
        views_(views),
        mover_(mover),
        streams_(streams),
        peaks_(peaks),
        tracer_(tracer),
        planner_(config.sizing, config.options.policy) {}

  // The number of arenas and views that plans have visited so far. For tests.
  uint64_t visited_count() const ASHLAR_REQUIRES(engine_lock) { return visited_count_; }

  // REQUIRES: the request's pool is not plain. kOutOfMemory: the limit or the device refused new
  // memory, or the borrower's stream cannot wait for a lender's stream.
  Result<Block*> allocate(SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);

  // An exact range of a view, for restoring a checkpoint. The view is moved to `arena` if no block
  // of the view is in use. REQUIRES: no block in the range is in use, and no block of another view
  // uses an extent of the range.
  struct ExactRange {
    View& view;
    Arena& arena;
    AddressRange range;
    size_t requested_bytes = 0;
  };
  // Host memory for allocations of exact ranges.
  struct ExactScratch {
    std::vector<Arena*> lenders{};
  };
  // Prepares the allocation of all these ranges of the pool. No arena, view or slot may be added
  // before they are allocated.
  static ExactScratch prepare_exact(const PagedPool& pool, const std::vector<ExactRange>& ranges)
      ASHLAR_REQUIRES(engine_lock);
  // Allocates the block that covers an exact range. Cannot fail: if events cannot order the
  // streams, the host waits for the device, and errors are deferred.
  Block* allocate_at(const ExactRange& exact, ExactScratch& scratch, DeferredError& error) noexcept
      ASHLAR_REQUIRES(engine_lock);

 private:
  // The memory taken for a request: a block in state kPending, and extents to be mapped after it.
  struct Placement {
    View* view = nullptr;         // null: a new view
    PagedBlock* block = nullptr;  // null: no existing part of the view
    size_t offset = 0;            // where in the view the allocated block will begin
    std::vector<Extent*> pieces{};
    size_t idle_piece_count = 0;    // idle pieces come first, then new ones
    std::vector<Arena*> lenders{};  // without duplicates after `take`
  };

  PlanRequest plan_request(const SlowPathRequest& request) const ASHLAR_REQUIRES(engine_lock);
  static int64_t flush(std::span<Arena* const> arenas);
  void choose_lenders(const SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  bool may_lend(const Arena& arena) ASHLAR_REQUIRES(engine_lock);
  bool can_afford_to_stitch(const SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  size_t over_budget_growth_bytes(const SlowPathRequest& request) const
      ASHLAR_REQUIRES(engine_lock);
  Plan make_plan(const SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  static Placement prepare(const Plan& plan, const SlowPathRequest& request);
  void take(const Plan& plan, const SlowPathRequest& request, Placement& placement) noexcept
      ASHLAR_REQUIRES(engine_lock);
  Status complete(Placement& placement, size_t new_bytes, SlowPathRequest& request)
      ASHLAR_REQUIRES(engine_lock);
  Status map_pieces(Placement& placement, SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  Status order_after(const std::vector<Arena*>& lenders, const Arena& borrower)
      ASHLAR_REQUIRES(engine_lock);
  void charge_mapping(const SlowPathRequest& request, size_t stitched_count, size_t all_count,
                      int64_t begin_ns) noexcept ASHLAR_REQUIRES(engine_lock);
  Block* commit(const Placement& placement, size_t bytes, const AllocationRequest& request) noexcept
      ASHLAR_REQUIRES(engine_lock);
  void assign_extents(const Placement& placement) noexcept ASHLAR_REQUIRES(engine_lock);
  void roll_back(const Placement& placement) noexcept ASHLAR_REQUIRES(engine_lock);

  const PagedConfig& config_;
  ExtentStore& extents_;
  ViewTable& views_;
  ExtentMover& mover_;
  StreamMonitor& streams_;
  PeakTracker& peaks_;
  RequestTracer& tracer_;
  Planner planner_ ASHLAR_GUARDED_BY(engine_lock);
  uint64_t visited_count_ ASHLAR_GUARDED_BY(engine_lock) = 0;
};

}  // namespace ashlar::paged
