// SPDX-License-Identifier: Apache-2.0
//
// The default engine. Physical memory (extents) and addresses (views) are separate: a free extent
// between live blocks is mapped into another view, where a request needs it, instead of fragmenting
// the memory. docs/internals/paged_engine.md describes the design.
//
// This class only dispatches; its components own the state:
//
//   FastPath         allocate and free on the fast path
//   MissHandler      the slow path of an allocation, up to the out-of-memory report
//     Stitcher       plans with the Planner (pool/planner.h) and carries plans out
//     SegmentStore   plain segments, for pools and blocks that do not use extents
//     Trimmer        returns cached memory to the device
//     MappingRetirer bounds the number of old mappings
//   PendingBlocks    frees that are deferred until other streams finish
//   PoolPauser       pause and resume; HostBackups copies the contents of paused pools
//   PoolTable        pools and routing; pool/ has the data structures of a pool
//   ExtentStore      physical memory and limits
//   ViewTable        addresses and mappings; ExtentMover moves extents between views
//   PeakTracker      statistics
//   RequestTracer    history and trackers
//   StreamMonitor    captures, idle queries and events of streams
//
// Locks are taken in this order: EngineMutex (all slow paths), PeakTracker's lock, the locks of the
// arenas by serial. A hit takes only the lock of its arena, unless it reaches a new peak. User code
// other than route filters is called with no lock held.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/paged/config.h"
#include "engine/paged/fast_path.h"
#include "engine/paged/mapping_retirer.h"
#include "engine/paged/miss_handler.h"
#include "engine/paged/pool_pauser.h"

namespace ashlar::paged {

class PagedEngine final : public Engine {
 public:
  // `device` and `clock` outlive the engine; a null clock means the host's clock. REQUIRES:
  // check_allocator_options accepts `options`.
  PagedEngine(Device& device, const AllocatorOptions& options, Clock* clock = nullptr);
  // Releases all memory, including blocks in use, whose addresses become invalid.
  ~PagedEngine() override;

  Device& device() const override { return config_.device; }
  Result<Block*> allocate(const AllocationRequest& request) override;
  Block* allocate_fast(size_t bytes, StreamId stream) noexcept override;
  Status free(Block* block, StackId stack = {}) override;
  Status free_if_owned(Block* block, StackId stack) override;
  bool owns(const Block* block) const override;
  void free_quietly(Block* block, StackId stack = {}) override;
  Status record_stream(Block* block, const DeviceStream& use) override;
  void pin(Block* block) override;
  void unpin(Block* block) override;
  BlockMemory block_memory(const Block* block) const override;
  Status add_accessor(DeviceIndex accessor) override;
  bool is_accessor(DeviceIndex device) const override;
  Status trim(PoolId pool = {}, StackId stack = {}) override;
  Result<size_t> trim_to(const TrimTarget& target) override;
  Status pause(std::string_view tag, bool keep_contents) override;
  Status resume(std::string_view tag) override;
  Status set_memory_fraction(double fraction) override;
  double memory_fraction() const override;
  void set_caching(bool caching) override;
  bool is_caching() const override;
  void leave_fast_path(StreamId stream) override { fast_path_.arenas().remove(stream); }
  void set_stream_class(StreamId stream, std::string name) override;
  std::string stream_class(StreamId stream) const override;
  void set_default_class_fraction(const std::string& name, double capacity_fraction) override;
  Status create_pool(PoolId pool, PoolOptions options) override;
  Status retain_pool(PoolId pool) override;
  Status release_pool(PoolId pool) override;
  Result<int> pool_use_count(PoolId pool) const override;
  Status set_pool_use_on_oom(PoolId pool, bool use_on_oom) override;
  Status set_pool_no_split(PoolId pool) override;
  Status begin_routing(PoolId pool, RouteFilter filter) override;
  Status end_routing(PoolId pool) override;
  void capture_began() override;
  Status capture_ended() override;
  Result<std::vector<DeviceAddress>> live_in_pool(PoolId pool) const override;
  Result<PoolCheckpoint> checkpoint(PoolId pool) override;
  Result<RestoreResult> restore(const PoolCheckpoint& checkpoint) override;
  EngineSnapshot take_snapshot(std::optional<PoolId> pool = {}) override;
  std::vector<StackId> stacks_in_use() const override;
  Status annotate(DeviceAddress address, const std::string& annotation) override;
  AllocatorStats stats() const override;
  void reset_peak_stats() override;
  void reset_total_stats() override;
  size_t largest_cached_bytes() const override;
  std::vector<ExpandableSegmentStats> expandable_segments() const override;
  void add_tracker(TraceTracker tracker) override;
  void add_oom_observer(std::function<void(const OomNotice&)> observer) override;
  void add_rejection_observer(std::function<void(const OomNotice&)> observer) override;
  void add_free_memory_callback(std::function<bool()> callback) override;
  Status add_remap_observer(RemapObserver observer) override;

  // Checks the invariants of all components. The message names the first invariant that does not
  // hold.
  Status validate() const;
  // The number of arenas and views that updates of peaks and plans have visited so far. For tests
  // that check how the cost of slow paths grows.
  uint64_t visited_arena_count() const;

 private:
  // The paths of allocate and free, from fast to slow. Out of line, so that callers that stay on
  // the fast path pay nothing.
  [[gnu::noinline]] Result<Block*> allocate_from_arena(const AllocationRequest& request);
  Result<Block*> allocate_slow(const AllocationRequest& request);
  [[gnu::noinline]] Status free_to_arena(PagedBlock* block, StackId stack);
  [[gnu::noinline]] void free_to_arena_quietly(PagedBlock* block, StackId stack);
  Status free_slow(PagedBlock* block, StackId stack);

  Arena& default_arena(StreamId stream) {
    Arena* arena = fast_path_.arenas().find(stream);
    return arena != nullptr ? *arena : find_default_arena(stream);
  }
  Arena& find_default_arena(StreamId stream);
  Status change_pools(std::string_view tag, PoolTransition transition);
  Result<RestoreResult> restore_locked(const PoolCheckpoint& checkpoint)
      ASHLAR_REQUIRES(engine_lock);
  Status finish_trim(Status status) ASHLAR_REQUIRES(engine_lock);
  // Recomputes whether the fast path is enabled. Call at the end of every operation under the lock
  // that may change the result.
  void update_fast_path() noexcept ASHLAR_REQUIRES(engine_lock);
  // Calls update_fast_path at the end of a scope, even if the operation throws. REQUIRES: the
  // engine's lock.
  class [[nodiscard]] FastPathUpdate {
   public:
    explicit FastPathUpdate(PagedEngine& engine) : engine_(engine) {}
    ~FastPathUpdate() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
      engine_.update_fast_path();
    }
    FastPathUpdate(const FastPathUpdate&) = delete;
    FastPathUpdate& operator=(const FastPathUpdate&) = delete;

   private:
    PagedEngine& engine_;
  };
  // `notify_observers` calls trackers and remap observers, `notify_trackers` only trackers.
  // REQUIRES: no lock is held.
  void notify_observers();
  void notify_trackers();
  void release_all() noexcept ASHLAR_REQUIRES(engine_lock);

  template <typename Visit>
  void for_each_block(const Visit& visit) const ASHLAR_REQUIRES(engine_lock);
  Status validate_usage() const ASHLAR_REQUIRES(engine_lock);

  const PagedConfig config_;
  FastPath fast_path_;
  RequestTracer tracer_;

  mutable EngineMutex mutex_;
  mutable PeakTracker peaks_;
  DeferredError error_;
  StreamMonitor streams_;
  PoolTable pools_;
  HostBackups backups_;
  ExtentStore extents_;
  ExtentMover mover_;
  ViewTable views_;
  SegmentStore segments_;
  PendingBlocks pending_;
  Stitcher stitcher_;
  MappingRetirer retirer_;
  Trimmer trimmer_;
  PoolPauser pauser_;
  MissHandler misses_;
  std::map<StreamId, std::string> stream_classes_ ASHLAR_GUARDED_BY(engine_lock);
};

}  // namespace ashlar::paged
