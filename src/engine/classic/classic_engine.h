// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's caching allocator policy as an engine. One lock guards the whole engine, as in PyTorch.
//
// The engine makes the decisions and releases the lock where needed. Its components hold the state:
//   PoolTable           pools, routing, and where each pool's memory comes from
//   BlockHeap           blocks: splitting, merging, state changes
//   ExpandableSegments  address ranges that grow in place
//   Reclaimer           returning cached memory to the device
//   PendingFrees        frees that are deferred until other streams or captures finish
//   StatsRecorder, Tracer, MemoryLimit
//
// classic_engine.cc   allocate, grow, free
// reclaim.cc          the reclaim steps when memory runs out, trim, the out-of-memory report
// forwarding.cc       operations that one component implements
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ashlar/options.h"
#include "base/mutex.h"
#include "engine/classic/block_heap.h"
#include "engine/classic/expandable_segments.h"
#include "engine/classic/pool_table.h"
#include "engine/classic/reclaimer.h"
#include "engine/engine.h"
#include "engine/hooks.h"
#include "engine/pending_frees.h"
#include "engine/return_queue.h"
#include "engine/size_policy.h"

namespace ashlar::classic {

class ClassicEngine : public Engine {
 public:
  // `device` outlives the engine. REQUIRES: check_allocator_options accepts `options`.
  ClassicEngine(Device& device, const AllocatorOptions& options, SourceConfig source = {});
  // Returns all memory to the device or to the segment sources. This includes allocated blocks,
  // whose addresses become invalid.
  ~ClassicEngine() override;

  Device& device() const override { return device_; }
  Result<Block*> allocate(const AllocationRequest& request) override;
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
  Status set_memory_fraction(double fraction) override;
  double memory_fraction() const override;
  void set_caching(bool caching) override;
  bool is_caching() const override;
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
  Status annotate(DeviceAddress address, const std::string& text) override;
  AllocatorStats stats() const override;
  void reset_peak_stats() override;
  void reset_total_stats() override;
  size_t largest_cached_bytes() const override;
  std::vector<ExpandableSegmentStats> expandable_segments() const override;
  void add_tracker(TraceTracker tracker) override;
  void add_oom_observer(std::function<void(const OomNotice&)> observer) override;
  void add_rejection_observer(std::function<void(const OomNotice&)> observer) override;
  void add_free_memory_callback(std::function<bool()> callback) override;

  // Recreates a segment of a recorded run, for replays: obtains memory, divides it into the same
  // blocks, and returns the active blocks in address order. Trackers are not notified.
  // kInvalidArgument: the segment is expandable, its blocks do not tile it, or its pool does not
  // exist.
  Result<std::vector<ClassicBlock*>> adopt(const SnapshotSegment& segment);
  // Recreates an expandable segment that begins at `begin`. `parts` are its mapped ranges in
  // address order, with the same pool, stream and size class. The new segment has other addresses
  // but the same offsets. kInvalidArgument: see `adopt`, or a part does not consist of whole
  // granules or exceeds the address space that a segment reserves.
  Result<std::vector<ClassicBlock*>> adopt_expandable(std::span<const SnapshotSegment> parts,
                                                      DeviceAddress begin);

  // Checks all invariants and returns the first violation.
  Status validate() const;

 protected:
  // Memory obtained from the device or the source.
  struct ReservedBytes {
    size_t total = 0;
    size_t default_pool = 0;
  };
  ReservedBytes reserved() const;

 private:
  // Returns the number of bytes that a caching source holds in addition to the `in_use_bytes` that
  // it has handed out. May be called with the lock held.
  virtual size_t source_cached_bytes(size_t /*in_use_bytes*/) const { return 0; }
  // Returns the source's cached memory to the device. May wait. Called without the lock, in relaxed
  // capture mode.
  virtual Status trim_source() { return {}; }

  class OperationLock;
  class Unlock;

  // Allocation.
  Result<ClassicBlock*> allocate_locked(AllocParams& params) ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> find_or_grow(AllocParams& params) ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> allocate_uncached(AllocParams& params) ASHLAR_REQUIRES(mutex_);
  ClassicBlock* take_cached(const AllocParams& params) ASHLAR_REQUIRES(mutex_);
  // Obtains memory for the request: a plain segment, or more of an expandable one.
  Result<ClassicBlock*> grow(AllocParams& params) ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> grow_plain(const AllocParams& params) ASHLAR_REQUIRES(mutex_);
  Result<DeviceAddress> allocate_segment(const AllocParams& params, SegmentSource* source)
      ASHLAR_REQUIRES(mutex_);
  bool run_free_memory_callbacks() ASHLAR_REQUIRES(mutex_);

  // Adopting segments of a recorded run.
  Result<AllocParams> adoption_params(const SnapshotSegment& segment) ASHLAR_REQUIRES(mutex_);
  struct Division;
  void divide(ClassicBlock* whole, const SnapshotSegment& like, AllocParams& params,
              Division& division) ASHLAR_REQUIRES(mutex_);

  // Freeing.
  Status free_locked(ClassicBlock* block) ASHLAR_REQUIRES(mutex_);
  bool owns_locked(const Block& block) const ASHLAR_REQUIRES(mutex_);
  // Frees a block that is not pinned, or makes its free pending.
  Status free_unpinned(ClassicBlock* block) ASHLAR_REQUIRES(mutex_);
  void complete_free(ClassicBlock* block) ASHLAR_REQUIRES(mutex_);
  // Completes the frees of the blocks in `finished`. Returns `collected`, the status of the
  // collection that found them.
  Status complete_frees(Status collected, const std::vector<Block*>& finished)
      ASHLAR_REQUIRES(mutex_);
  Status collect_pending(StreamId stream) ASHLAR_REQUIRES(mutex_);
  Status collect_deferred() ASHLAR_REQUIRES(mutex_);

  // Reclaiming.
  Result<ClassicBlock*> reclaim_and_retry(AllocParams& params, Status why) ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> release_all_and_retry(AllocParams& params) ASHLAR_REQUIRES(mutex_);
  ClassicBlock* borrow_from_overflow_pools(const AllocParams& params) ASHLAR_REQUIRES(mutex_);
  Status wait_for_pending(PoolId pool) ASHLAR_REQUIRES(mutex_);
  Status collect_finished() ASHLAR_REQUIRES(mutex_);
  Status release_cached(PoolId pool) ASHLAR_REQUIRES(mutex_);
  // Releases pass-through blocks that could not be released when they were freed, because of a
  // capture or a device failure.
  void release_leftovers() ASHLAR_REQUIRES(mutex_);
  // Returns queued segments to their sources, without the lock.
  void return_queued_segments() ASHLAR_REQUIRES(mutex_);
  void wait_for_segment_returns() ASHLAR_REQUIRES(mutex_);
  Status trim_caching_source() ASHLAR_REQUIRES(mutex_);
  // Notifies observers, and returns the error with the full report. Also counts and traces the
  // failure, except that of a rejected request (AllocParams::rejected), which `grow` has counted.
  Status report_oom(const AllocParams& params, const Status& why) ASHLAR_REQUIRES(mutex_);
  std::string oom_message(const AllocParams& params, const Status& why, size_t device_free_bytes)
      ASHLAR_REQUIRES(mutex_);

  Device& device_;
  const AllocatorOptions options_;
  const SizePolicy sizes_;
  Hooks hooks_;
  ReturnQueue returns_;

  mutable Mutex mutex_;
  StatsRecorder stats_ ASHLAR_GUARDED_BY(mutex_);
  Tracer tracer_ ASHLAR_GUARDED_BY(mutex_);
  MemoryLimit limit_ ASHLAR_GUARDED_BY(mutex_);
  PoolTable pools_ ASHLAR_GUARDED_BY(mutex_);
  BlockHeap heap_ ASHLAR_GUARDED_BY(mutex_);
  ExpandableSegments expandables_ ASHLAR_GUARDED_BY(mutex_);
  PendingFrees pending_ ASHLAR_GUARDED_BY(mutex_);
  Reclaimer reclaimer_ ASHLAR_GUARDED_BY(mutex_);
  bool caching_ ASHLAR_GUARDED_BY(mutex_) = true;
};

}  // namespace ashlar::classic
