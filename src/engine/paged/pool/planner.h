// SPDX-License-Identifier: Apache-2.0
//
// Decides where the block of a miss is placed: computes a plan from a request and the state of a
// pool. Makes no driver calls, and changes only the pool's budget and scratch fields (the results
// of `mark_idle_extents`, `Extent::planner_round`), so it can be tested without a device.
// `Stitcher` carries the plan out.
//
// Plans in order of preference:
//   1. in place: a range of a view whose memory is free in that view or idle. No driver call.
//   2. growth: idle extents, then new ones, mapped at the end of a view.
//
// The cost of a place, in bytes, is the memory that the block strands there (the idle extents that
// it touches, minus its own size), plus half of the free range that remains, plus a quarter of the
// memory borrowed from other streams.
//
// Not thread safe. All functions need the engine's lock and the locks of the pool's arenas.
#pragma once

#include <vector>

#include "engine/paged/pool/extent_sizing.h"
#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {

struct PlanRequest {
  PagedPool& pool;
  Arena& arena;      // the requesting stream's arena in `pool`
  size_t bytes = 0;  // size of the block
  bool is_small = false;
  size_t held_bytes = 0;  // memory that the engine holds

  GrowthRequest growth() const { return {bytes, is_small, held_bytes, pool.typical_block.bytes()}; }
};

struct Plan {
  View* view = nullptr;           // null: a new view
  PagedBlock* from = nullptr;     // the existing block that contains `offset`; null if none
  size_t offset = 0;              // where in the view the block will begin
  std::vector<Extent*> pieces{};  // idle extents to be mapped at the end of the view
  size_t new_bytes = 0;           // new memory to be mapped after `pieces`
  bool exists = false;            // false: no plan was found
};

class Planner {
 public:
  Planner(const ExtentSizing& sizing, PagedPolicy policy)
      : sizing_(sizing), searches_all_views_(policy == PagedPolicy::kLean) {}

  // Returns the best plan that takes idle memory only from arenas that lend (`Arena::is_lending`).
  // Charges the cost of planning, in visits (idle_map.h), to the pool's budget.
  Plan plan(const PlanRequest& request);
  // Returns a plan that takes `new_bytes` of new memory, without searching for idle memory.
  Plan plan_new_memory(const PlanRequest& request, size_t new_bytes) const;

 private:
  struct UsableRange;
  struct Tail;
  class BestPlace;

  Plan plan_in_place(const PlanRequest& request);
  void consider_ranges(View& view, const IdleMap& idle, BestPlace& best);
  static bool may_use(const View& view, const PlanRequest& request);
  static UsableRange range_around(const View& view, size_t first, size_t end, const IdleMap& idle);

  Plan plan_growth(const PlanRequest& request);
  std::vector<Extent*> reusable_extents(const PlanRequest& request) const;
  std::vector<Tail> growable_tails(const PlanRequest& request);
  Tail find_tail(View& view, const PlanRequest& request);
  Plan choose_pieces(const PlanRequest& request, View* view, size_t have_bytes,
                     const std::vector<Extent*>& idle);
  double cost_of(const PlanRequest& request, const Plan& plan) const;
  void place_new_memory(const PlanRequest& request, Plan& plan) const;

  const ExtentSizing& sizing_;
  const bool searches_all_views_;
  int64_t visit_count_ = 0;  // visits for the current plan so far (idle_map.h)
  uint64_t round_ = 0;       // the last value given to `Extent::planner_round`
};

}  // namespace ashlar::paged
