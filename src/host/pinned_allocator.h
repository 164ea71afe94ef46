// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory of one device, cached: the way in to this folder. A request goes from here to
// the cache of free blocks of its pool (pinned_pools.h, pinned_cache.h), and on a miss to the host
// (pinned_source.h); a freed block that streams may still be using waits in pinned_pending.h,
// looked after by every allocate and free, or by a thread of its own (poller.h).
//
// Every function may be called from any thread, except that a block is the caller's alone between
// its allocation and its free. The lock is never held across a call of the device or the host.
//
// INVARIANTS (validate() checks them):
//   cache members == free blocks;  table of addresses == blocks with memory;
//   counters == sums over blocks;  a block is in a graph exactly while freed with captures left.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "ashlar/clock.h"
#include "ashlar/device.h"
#include "ashlar/host_stats.h"
#include "ashlar/options.h"
#include "base/mutex.h"
#include "host/pinned_block.h"
#include "host/pinned_pending.h"
#include "host/pinned_pools.h"
#include "host/pinned_sizes.h"
#include "host/pinned_source.h"
#include "host/poller.h"

namespace ashlar {

class PinnedAllocator {
 public:
  // Takes the reserve segment, if `options` ask for one. `device` and `clock` outlive the
  // allocator. REQUIRES: options that src/config would accept.
  static Result<std::unique_ptr<PinnedAllocator>> create(Device& device,
                                                         const AllocatorOptions& options,
                                                         Clock& clock);
  // Waits for the streams that use its blocks, then gives everything back, blocks in use included.
  // REQUIRES: graphs that use its memory are gone, and their launches done.
  ~PinnedAllocator();
  PinnedAllocator(const PinnedAllocator&) = delete;
  PinnedAllocator& operator=(const PinnedAllocator&) = delete;

  Device& device() const { return device_; }

  // Memory of at least `bytes`, and no more than PinnedSizes says; contents are arbitrary. The
  // stream decides about the pool, and about nothing else.
  // kInvalidArgument: 0 B. kOutOfMemory: the host has none, even after the cache was given back.
  // Any other failure may be one that a free or the poller met earlier: it is told once, and trying
  // again may well succeed.
  Result<PinnedBlock*> allocate(size_t bytes, StreamId stream = kDefaultStream);

  // The memory is the allocator's again; it is used again, or given back, when every stream that
  // was recorded for it has done the work queued by now. A failure on the way there is told by the
  // next allocate or trim. kInvalidArgument: not a block of this allocator that is in use; nothing
  // changed.
  Status free(PinnedBlock* block);

  // The block is used by work queued in that stream. False: this is not memory of ours, or, for a
  // pointer, no block in use. If the stream is capturing, the block belongs to that capture's graph
  // as well: freed or not, it is not used again before release_capture.
  // kInvalidArgument: the block was freed, or there is no such stream.
  Result<bool> record_stream(PinnedBlock* block, const StreamUse& use);
  // `memory` may lie anywhere inside a block.
  Result<bool> record_stream(const void* memory, const StreamUse& use);
  // Nothing captured then will be launched again: the graph is gone, or never came to be. Launches
  // already queued may still be running, in the streams named (with their devices). A capture that
  // used no block of ours is fine. Blocks of captures that are never released are kept;
  // HostStats::graph_blocks counts them.
  void release_capture(CaptureId capture, std::span<const StreamUse> launched_on = {});

  // Pools keep what is freed apart; PinnedPools has the rules. The filter is called while locked.
  Status begin_routing(PoolId pool, RouteFilter filter);
  Status end_routing(PoolId pool);
  Status release_pool(PoolId pool);
  Result<int> pool_use_count(PoolId pool) const;

  // Gives all free blocks back to the host, except parts of the reserve segment and those of pools
  // that somebody holds. Waits for no
  // device work, unless a stream was destroyed before a block that it used was freed: then only its
  // device can tell when that work is done.
  Status trim();

  HostStats stats() const;
  void reset_peak_stats();
  void reset_total_stats();

  // Every invariant above; the first one that does not hold, in words. REQUIRES: no other thread is
  // in a call.
  Status validate() const;

 private:
  enum class IfBusy { kReturn, kWait };

  PinnedAllocator(Device& device, const AllocatorOptions& options, Clock& clock);

  // --- pinned_allocator.cc
  PinnedBlock* take_cached(PinnedPool& pool, size_t bytes) ASHLAR_REQUIRES(mutex_);
  Result<PinnedBlock*> grow(PinnedPool& pool, size_t bytes) ASHLAR_EXCLUDES(mutex_);
  Result<PinnedMemory> obtain(size_t bytes) ASHLAR_EXCLUDES(mutex_);
  PinnedBlock* adopt(PinnedPool& pool, const PinnedMemory& memory) ASHLAR_REQUIRES(mutex_);
  PinnedBlock* hand_out(PinnedBlock* block, size_t bytes) ASHLAR_REQUIRES(mutex_);
  Status out_of_memory(size_t bytes, const Status& why) ASHLAR_EXCLUDES(mutex_);
  // The block that covers the address; null if there is none.
  PinnedBlock* find(const void* memory) const ASHLAR_REQUIRES(mutex_);

  // --- pinned_reclaim.cc
  // The ways of a freed block. True: streams use it, and PinnedPending must get it once unlocked.
  bool settle(PinnedBlock* block) ASHLAR_REQUIRES(mutex_);
  void make_free(PinnedBlock* block) ASHLAR_REQUIRES(mutex_);
  void watch(const std::vector<PinnedBlock*>& pending) ASHLAR_EXCLUDES(mutex_);
  // Nobody else does it, and there is something to look after.
  bool must_look_after_pending() const ASHLAR_REQUIRES(mutex_) {
    return poller_ == nullptr && stats_.pending_blocks.current > 0;
  }
  // Makes free what is done. Says whether calling again may find more.
  bool collect_finished(IfBusy if_busy) ASHLAR_EXCLUDES(mutex_);
  void collect_stranded() ASHLAR_EXCLUDES(mutex_);
  bool begin_collecting(IfBusy if_busy) ASHLAR_EXCLUDES(mutex_);
  void end_collecting(const std::vector<PinnedBlock*>& finished, const Status& failure)
      ASHLAR_EXCLUDES(mutex_);
  void release_cached() ASHLAR_EXCLUDES(mutex_);
  void give_back_unwanted() ASHLAR_EXCLUDES(mutex_);
  void defer_error(const Status& failure) ASHLAR_REQUIRES(mutex_);

  Device& device_;
  Clock& clock_;
  const PinnedSizes sizes_;
  PinnedSource source_;
  PinnedPending pending_;

  mutable Mutex mutex_;
  std::condition_variable collected_;
  bool collecting_ ASHLAR_GUARDED_BY(mutex_) = false;  // one thread at a time asks for events
  std::deque<PinnedBlock> blocks_ ASHLAR_GUARDED_BY(mutex_);   // all there ever were
  std::vector<PinnedBlock*> spare_ ASHLAR_GUARDED_BY(mutex_);  // without memory
  std::map<const std::byte*, PinnedBlock*, std::less<>> by_address_ ASHLAR_GUARDED_BY(mutex_);
  PinnedPools pools_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<PinnedBlock*> unwanted_ ASHLAR_GUARDED_BY(mutex_);  // to be given back to the host
  std::map<CaptureId, std::vector<PinnedBlock*>> captured_ ASHLAR_GUARDED_BY(mutex_);
  HostStats stats_ ASHLAR_GUARDED_BY(mutex_);  // less the counts by size class
  std::vector<int64_t> class_counts_ ASHLAR_GUARDED_BY(mutex_);
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);  // for the next allocate or trim

  // The last field: its thread ends before anything that it looks at.
  std::unique_ptr<Poller> poller_;  // null: allocate and free look after pending blocks
};

}  // namespace ashlar
