// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's caching allocator policy, as an engine. One lock for all of it, as there.
//
// act.h               the lock, held for an act and not while code of others runs
// classic_engine.cc   allocate, free, record_stream: the story, and hand-out
// grow.cc             memory from the device: plain segments and expandable ones
// reclaim.cc          memory back to the device: the ladder's rungs, trim, collection by age
// trim_to.cc          the same, as far as asked for
// pools.cc            private pools and routing
// counting.cc         the statistics
// looking.cc          what it tells: statistics, and hooks
// snapshot.cc         what it holds, block by block
// adopt.cc            segments of a recorded run taken over
// checkpoint.cc       the state of a private pool, taken and restored
//
// Frees that wait for other streams and captures are in pending_frees.cc, one folder up; who hears
// of what it does, in hooks.cc there.
//
// Invariants (validate.cc checks them):
//   blocks of a segment, in address order, tile it; no two free neighbours of equal kind stay
//   apart; pool members == free blocks; counters == sums over blocks.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ashlar/options.h"
#include "base/mutex.h"
#include "base/routes.h"
#include "engine/classic/block_store.h"
#include "engine/classic/expandable_segment.h"
#include "engine/classic/free_pool.h"
#include "engine/classic/private_pool.h"
#include "engine/engine.h"
#include "engine/hooks.h"
#include "engine/pending_frees.h"
#include "engine/return_queue.h"
#include "engine/size_policy.h"

namespace ashlar::classic {

// Where an engine's memory comes from, if not from the device; pools may still have sources of
// their own.
struct EngineSource {
  std::shared_ptr<SegmentSource> source{};  // null: the device. Shared with whoever gave it.
  // The default pool keeps nothing: each allocation is the source's own, of exactly the size asked
  // for, and goes back to it while work of its own stream may still be queued. Other pools, which
  // captures rely on, take whole segments as ever.
  bool passes_each = false;
  // Pools without a source of their own have this one, and not the device.
  bool serves_pools = true;
  // It keeps memory of the device for itself: see kept_bytes and trim_source.
  bool keeps = false;
};

class ClassicEngine : public Engine {
 public:
  // `device` outlives the engine. REQUIRES: options that src/config would accept.
  ClassicEngine(Device& device, const AllocatorOptions& options, EngineSource source = {});
  // Gives everything back to the device, blocks in use included: their addresses die with it.
  ~ClassicEngine() override;

  Device& device() const override { return device_; }
  Result<Block*> allocate(const AllocationRequest& request) override;
  Status free(Block* block, StackId stack = {}) override;
  void free_quietly(Block* block, StackId stack = {}) override;
  Status record_stream(Block* block, const StreamUse& use) override;
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
  Status begin_routing(PoolId pool, RouteFilter filter) override;
  Status end_routing(PoolId pool) override;
  void capture_began() override;
  Status capture_ended() override;
  Result<std::vector<DeviceAddress>> live_in_pool(PoolId pool) const override;
  Result<PoolCheckpoint> checkpoint(PoolId pool) override;
  Result<RestoreResult> restore(const PoolCheckpoint& checkpoint) override;
  EngineSnapshot take_snapshot(std::optional<PoolId> pool = {}) override;
  Status annotate(DeviceAddress address, const std::string& said) override;
  AllocatorStats stats() const override;
  void reset_peak_stats() override;
  void reset_total_stats() override;
  size_t largest_cached_bytes() const override;
  std::vector<ExpandableUse> expandable_segments() const override;
  void add_tracker(TraceTracker tracker) override;
  void add_oom_observer(std::function<void(const OomNotice&)> observer) override;
  void add_rejection_observer(std::function<void(const OomNotice&)> observer) override;
  void add_free_memory_callback(std::function<bool()> callback) override;

  // Takes over a segment as it was in a recorded run: memory from the device, and the same blocks
  // in use, which it gives in the order of their addresses. Nobody is told. For replays.
  // kInvalidArgument: it is expandable, or its blocks do not tile it.
  Result<std::vector<ClassicBlock*>> adopt(const SnapshotSegment& segment);

  // Every invariant above; the first one that does not hold, in words.
  Status validate() const;

 protected:
  // What is held of the device, as far as the engine knows, and the part of it that the default
  // pool has: of an engine that passes each on, what its source has given.
  struct Held {
    size_t all_bytes = 0;
    size_t given_bytes = 0;
  };
  Held held() const;

 private:
  // Of a source that keeps memory for itself. How much more that is than it has given; called with
  // the lock held.
  virtual size_t kept_bytes(size_t) const { return 0; }
  // Gives that back to the device. May wait; called without the lock, and relaxed in captures.
  virtual Status trim_source() { return {}; }

  // One request on its way: what it asks for, and what has been found out about it.
  struct Search {
    AllocationRequest request;
    size_t block_bytes = 0;
    size_t segment_bytes = 0;
    FreePool* pool = nullptr;
    bool expandable = false;  // this request may use expandable segments
    bool rejected = false;    // refused by our own limit, without asking the device
  };

  // --- act.h
  class Act;
  class Pause;

  // --- classic_engine.cc
  Result<ClassicBlock*> allocate_locked(Search& search) ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> find_or_grow(Search& search) ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> allocate_uncached(Search& search) ASHLAR_REQUIRES(mutex_);
  ClassicBlock* take_cached(const Search& search) ASHLAR_REQUIRES(mutex_);
  // Null: the device.
  const std::shared_ptr<SegmentSource>& source_of(const FreePool& pool) const {
    return pool.owner() == nullptr ? source_.source : pool.owner()->options.source;
  }
  bool passes_each(const FreePool& pool) const {
    return source_.passes_each && pool.owner() == nullptr;
  }
  // What is left of a block is cut off by the usual rules, or exactly as wanted.
  enum class SplitRule { kUsual, kExactly };
  ClassicBlock* hand_out(ClassicBlock* block, const Search& search,
                         SplitRule rule = SplitRule::kUsual) ASHLAR_REQUIRES(mutex_);
  bool should_split(const ClassicBlock& block, const Search& search) const ASHLAR_REQUIRES(mutex_);
  ClassicBlock* split_front(ClassicBlock* rest, size_t bytes) ASHLAR_REQUIRES(mutex_);
  // A new block of the same segment, linked in between two neighbours; in no pool yet.
  ClassicBlock* new_part(const ClassicBlock& like, AddressRange range, ClassicBlock* previous,
                         ClassicBlock* next) ASHLAR_REQUIRES(mutex_);
  Status free_locked(ClassicBlock* block) ASHLAR_REQUIRES(mutex_);
  // The rest of it, once nobody holds the block.
  Status finish_free(ClassicBlock* block) ASHLAR_REQUIRES(mutex_);
  void make_free(ClassicBlock* block) ASHLAR_REQUIRES(mutex_);
  void make_all_free(const std::vector<Block*>& finished) ASHLAR_REQUIRES(mutex_);
  size_t merge(ClassicBlock* into, ClassicBlock* neighbour) ASHLAR_REQUIRES(mutex_);
  // What other streams were using, as far as they have passed; for an allocation on this one.
  Status collect_waiting(StreamId stream) ASHLAR_REQUIRES(mutex_);
  // The part of it that waited for captures only.
  Status collect_deferred() ASHLAR_REQUIRES(mutex_);
  // Of several, the first is told: the others may well follow from it.
  void defer_error(const Status& failure) ASHLAR_REQUIRES(mutex_);
  bool ask_callbacks() ASHLAR_REQUIRES(mutex_);
  // Counts and notes the failure, tells observers, and puts the numbers into words.
  Status report_oom(const Search& search, const Status& why) ASHLAR_REQUIRES(mutex_);

  // --- grow.cc
  Result<ClassicBlock*> grow(Search& search, bool is_retry) ASHLAR_REQUIRES(mutex_);
  // What this process may take of the device.
  size_t limit_bytes() const ASHLAR_REQUIRES(mutex_);
  bool is_above_limit(size_t more_bytes) const ASHLAR_REQUIRES(mutex_);
  size_t given_bytes() const ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> grow_plain(const Search& search) ASHLAR_REQUIRES(mutex_);
  Result<DeviceAddress> device_allocate(const Search& search) ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> grow_expandable(const Search& search) ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> find_expandable(const Search& search) ASHLAR_REQUIRES(mutex_);
  Status map_block(ClassicBlock* block, size_t bytes) ASHLAR_REQUIRES(mutex_);
  // What an expandable segment grows by: a multiple of what the device maps.
  size_t granule_bytes(bool is_small) const;
  size_t reserve_bytes(StreamId stream, size_t granule_bytes) const ASHLAR_REQUIRES(mutex_);
  std::optional<ReserveSize> reserve_setting(StreamId stream) const ASHLAR_REQUIRES(mutex_);
  std::string reserve_hint(const Search& search) const ASHLAR_REQUIRES(mutex_);

  // --- reclaim.cc
  Result<ClassicBlock*> reclaim_and_retry(Search& search, Status why) ASHLAR_REQUIRES(mutex_);
  Result<ClassicBlock*> empty_and_retry(Search& search) ASHLAR_REQUIRES(mutex_);
  ClassicBlock* borrow_from_overflow_pools(const Search& search) ASHLAR_REQUIRES(mutex_);
  bool release_oversize(const Search& search) ASHLAR_REQUIRES(mutex_);
  void collect_by_age() ASHLAR_REQUIRES(mutex_);
  Status wait_for_waiting(PoolId pool) ASHLAR_REQUIRES(mutex_);
  Status release_cached(PoolId pool) ASHLAR_REQUIRES(mutex_);
  void release_blocks(FreePool& pool) ASHLAR_REQUIRES(mutex_);
  // Pools that nobody holds and that have no memory: this one, or all.
  void erase_empty_pools(PoolId pool) ASHLAR_REQUIRES(mutex_);
  // Says whether the device took it back. If not, it stays in its pool. REQUIRES: it may wait, or
  // the segment's stream is idle.
  bool release_segment(ClassicBlock* block, TrimWait wait = TrimWait::kForWork)
      ASHLAR_REQUIRES(mutex_);
  // Tells the pools' own sources, without the lock, which segments they get back.
  void give_back_to_sources() ASHLAR_REQUIRES(mutex_);
  void wait_for_sources() ASHLAR_REQUIRES(mutex_);
  Status empty_source() ASHLAR_REQUIRES(mutex_);
  // Blocks of a pool that passes each on, which a capture kept from going back.
  void pass_on_left() ASHLAR_REQUIRES(mutex_);
  // The whole granules of a part of a free block, and how many bytes those were. What is left of
  // the block at either end stays free. REQUIRES: as for release_segment.
  size_t unmap_part(ClassicBlock* block, AddressRange part, TrimWait wait) ASHLAR_REQUIRES(mutex_);
  void destroy_empty_expandables(FreePool& pool) ASHLAR_REQUIRES(mutex_);
  void destroy_expandable(ClassicBlock* block) ASHLAR_REQUIRES(mutex_);

  // --- trim_to.cc
  // Free memory that the device could have back: a segment, or a granule of an expandable one.
  struct Piece {
    ClassicBlock* block = nullptr;
    size_t bytes = 0;
  };
  Status collect_finished() ASHLAR_REQUIRES(mutex_);
  std::vector<Piece> givable_pieces(TrimWait wait) ASHLAR_REQUIRES(mutex_);
  void drop_busy(std::vector<ClassicBlock*>& blocks) const ASHLAR_REQUIRES(mutex_);
  size_t give_back(const Piece& piece, TrimWait wait) ASHLAR_REQUIRES(mutex_);

  // --- pools.cc
  FreePool& pool_for(size_t block_bytes, StreamId stream) ASHLAR_REQUIRES(mutex_);
  PrivatePool* find_pool(PoolId pool) const ASHLAR_REQUIRES(mutex_);
  void add_pool(PoolId pool, PoolOptions options) ASHLAR_REQUIRES(mutex_);

  // --- counting.cc
  void count_handed_out(const ClassicBlock& block) ASHLAR_REQUIRES(mutex_);
  void count_free_requested(const ClassicBlock& block) ASHLAR_REQUIRES(mutex_);
  void count_freed(const ClassicBlock& block) ASHLAR_REQUIRES(mutex_);
  // Memory from the device and back to it: a plain segment, or a part of an expandable one.
  void count_reserved(const ClassicBlock& block, size_t bytes) ASHLAR_REQUIRES(mutex_);
  void count_given_back(const ClassicBlock& block, size_t bytes) ASHLAR_REQUIRES(mutex_);
  void count_inactive_split(bool is_small, int64_t more, int64_t more_bytes)
      ASHLAR_REQUIRES(mutex_);

  // --- checkpoint.cc
  std::vector<ClassicBlock*> first_blocks_of(const PrivatePool& pool) ASHLAR_REQUIRES(mutex_);
  Result<RestoreResult> restore_locked(const PoolCheckpoint& checkpoint) ASHLAR_REQUIRES(mutex_);
  void restore_segment(const PrivatePool& pool, const SegmentRecord& segment, RestoreResult& change)
      ASHLAR_REQUIRES(mutex_);

  // --- looking.cc
  void note(TraceAction action, const ClassicBlock& block, size_t bytes) ASHLAR_REQUIRES(mutex_);

  Device& device_;
  const AllocatorOptions options_;
  const EngineSource source_;
  const SizePolicy sizes_;
  const size_t capacity_bytes_;

  mutable Mutex mutex_;
  BlockStore blocks_ ASHLAR_GUARDED_BY(mutex_);
  AllocatorStats stats_ ASHLAR_GUARDED_BY(mutex_);
  FreePool large_ ASHLAR_GUARDED_BY(mutex_){false, nullptr, stats_.pools[PoolId{}]};
  FreePool small_ ASHLAR_GUARDED_BY(mutex_){true, nullptr, stats_.pools[PoolId{}]};
  std::map<PoolId, std::unique_ptr<PrivatePool>> pools_ ASHLAR_GUARDED_BY(mutex_);
  Routes routes_ ASHLAR_GUARDED_BY(mutex_);  // knows the same pools
  PendingFrees waiting_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<DeviceIndex> accessors_ ASHLAR_GUARDED_BY(mutex_);  // outlive the segments
  std::vector<std::unique_ptr<ExpandableSegment>> expandable_ ASHLAR_GUARDED_BY(mutex_);
  std::map<StreamId, std::string> stream_classes_ ASHLAR_GUARDED_BY(mutex_);
  std::map<std::string, double> default_class_fractions_ ASHLAR_GUARDED_BY(mutex_);
  size_t held_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;     // from the device, segments of all kinds
  size_t growing_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;  // asked of the device now, unlocked
  ReturnQueue return_queue_;
  double memory_fraction_ ASHLAR_GUARDED_BY(mutex_) = 1.0;
  bool caching_ ASHLAR_GUARDED_BY(mutex_) = true;
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);  // of a free path; the next allocate reports it

  StackId caller_stack_ ASHLAR_GUARDED_BY(mutex_);  // of the act that holds the lock

  Hooks hooks_;
};

}  // namespace ashlar::classic
