// SPDX-License-Identifier: Apache-2.0
//
// A caching allocator for pinned host memory of one device, and the entry point of this folder. A
// request searches the cache of its pool (pinned_pools.h, pinned_cache.h) and on a miss allocates
// from the host (pinned_source.h). A freed block that streams may still use is pending
// (pinned_pending.h); every allocate and free, or a background thread (poller.h), collects the
// blocks whose streams have finished.
//
// Thread safe, except that a block belongs to its caller between allocate and free. The lock is
// never held while the device or the host allocates, releases, records, polls or waits.
//
// A function that throws std::bad_alloc has changed nothing, except that caches may be released and
// pending frees completed. `free`, `trim` and the destructor succeed without host memory: lists of
// blocks are linked through the blocks, and a use whose event cannot be stored is retried later.
//
// Invariants (checked by validate()):
//   cached blocks == free blocks;  address table == blocks with memory;
//   counters == sums over blocks;  a freed block is kInGraph exactly while it has captures.
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
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "host/pinned_block.h"
#include "host/pinned_pending.h"
#include "host/pinned_pools.h"
#include "host/pinned_size_policy.h"
#include "host/pinned_source.h"
#include "host/poller.h"

namespace ashlar {

class PinnedAllocator {
 public:
  // Allocates the reserve segment if `options` request one. `device` and `clock` outlive the
  // allocator. REQUIRES: check_allocator_options accepts `options`.
  static Result<std::unique_ptr<PinnedAllocator>> create(Device& device,
                                                         const AllocatorOptions& options,
                                                         Clock& clock);
  // Waits for the streams that use the blocks, then releases all memory, including allocated
  // blocks. REQUIRES: graphs that use the memory have been destroyed, and their launches have
  // finished.
  ~PinnedAllocator();
  PinnedAllocator(const PinnedAllocator&) = delete;
  PinnedAllocator& operator=(const PinnedAllocator&) = delete;

  Device& device() const { return device_; }

  // A forked child must neither use nor destroy an allocator of its parent: the child lacks the
  // poller's thread and may have inherited locked mutexes. Callers check this.
  bool in_creating_process() const { return fork_guard_.in_creating_process(); }
  // Returns kInvalidArgument in a forked child.
  Status check_not_forked() const { return fork_guard_.check_not_forked("the host allocator"); }

  // Returns a block of at least `bytes`, sized by PinnedSizePolicy, with arbitrary contents. The
  // stream only selects the pool. kInvalidArgument: `bytes` is 0. kOutOfMemory: the size is
  // unreasonable, or the host has no memory left, even after the cache was released. Other errors
  // may stem from an earlier free or from the poller; they are reported once, and a retry may
  // succeed.
  Result<PinnedBlock*> allocate(size_t bytes, StreamId stream = kDefaultStream);

  // Returns the block to the allocator, which reuses or releases it once the work queued so far on
  // all recorded streams has finished and all captures that use the block have been released. The
  // next allocate or trim reports device errors. kInvalidArgument: `block` is not an allocated
  // block of this allocator; nothing has changed.
  Status free(PinnedBlock* block);

  // Declares that work queued on `use` accesses the block. Returns false if the block does not
  // belong to this allocator or, for a pointer, if no allocated block contains it. If the stream is
  // capturing, the use belongs to the capture's graph, and the block is not reused before
  // release_capture, even if freed. kInvalidArgument: the block has been freed, or there is no such
  // stream.
  Result<bool> record_stream(PinnedBlock* block, const DeviceStream& use);
  // Like the function above, for the block that contains `memory`.
  Result<bool> record_stream(const void* memory, const DeviceStream& use);
  // Declares that the capture's graph will not be launched again: it has been destroyed or never
  // instantiated. Launches already queued may still run on `launched_on`. Captures that used no
  // block of this allocator are ignored. Blocks of captures that are never released are kept even
  // after they are freed; HostStats::graph_blocks counts the freed blocks among them.
  void release_capture(CaptureId capture, std::span<const DeviceStream> launched_on = {});

  // Each pool has its own cached memory; see PinnedPools. The filter is called with the lock held.
  Status begin_routing(PoolId pool, RouteFilter filter);
  Status end_routing(PoolId pool);
  Status release_pool(PoolId pool);
  Result<int> pool_use_count(PoolId pool) const;

  // Releases all free blocks to the host, except parts of the reserve segment and blocks of
  // retained pools. Does not wait for device work unless a block is stranded, usually because a
  // stream that used the block was destroyed before the free: only a wait for the device covers
  // that work.
  Status trim();

  HostStats stats() const;
  void reset_peak_stats();
  void reset_total_stats();

  // Checks all invariants and returns the first violation. REQUIRES: no concurrent calls.
  Status validate() const;

 private:
  enum class IfBusy { kReturn, kWait };

  PinnedAllocator(Device& device, const AllocatorOptions& options, Clock& clock);

  // pinned_allocator.cc
  PinnedBlock* take_cached(PinnedPool& pool, size_t bytes) ASHLAR_REQUIRES(mutex_);
  Result<PinnedBlock*> grow(PinnedPool& pool, size_t bytes) ASHLAR_EXCLUDES(mutex_);
  Result<PinnedMemory> obtain(size_t bytes) ASHLAR_EXCLUDES(mutex_);
  using BlocksByAddress = std::map<const std::byte*, PinnedBlock*, std::less<>>;
  // Returns an unused record as the only element of a map, under an arbitrary address. Its node can
  // later be inserted into `by_address_` without an allocation.
  BlocksByAddress reserve_block() ASHLAR_EXCLUDES(mutex_);
  // Creates a block in the reserved record.
  PinnedBlock* create_block(PinnedPool& pool, const PinnedMemory& memory,
                            BlocksByAddress::node_type reserved) ASHLAR_REQUIRES(mutex_);
  PinnedBlock* hand_out(PinnedBlock* block, size_t bytes) ASHLAR_REQUIRES(mutex_);
  Status report_oom(size_t bytes, const Status& why) ASHLAR_EXCLUDES(mutex_);
  // Returns the block that contains the address; null if there is none.
  PinnedBlock* find(const void* memory) const ASHLAR_REQUIRES(mutex_);

  // pinned_reclaim.cc
  // Sets the state of a freed block. Returns true if streams use it; the caller must then add it to
  // PinnedPending, without the lock.
  bool finish_free(PinnedBlock* block) ASHLAR_REQUIRES(mutex_);
  void make_free(PinnedBlock* block) ASHLAR_REQUIRES(mutex_);
  void add_pending(PinnedBlockList& pending) ASHLAR_EXCLUDES(mutex_);
  // Returns whether this thread must poll, because there are pending blocks but no poller.
  bool must_poll_pending() const ASHLAR_REQUIRES(mutex_) {
    return poller_ == nullptr && stats_.pending_blocks.current > 0;
  }
  // Frees blocks whose work has finished. Returns whether another call may find more such blocks.
  bool collect_finished(IfBusy if_busy) ASHLAR_EXCLUDES(mutex_);
  // Frees the stranded blocks (see PinnedPending::wait_for_stranded), after waiting for their
  // devices.
  void collect_stranded() ASHLAR_EXCLUDES(mutex_);
  bool begin_collecting(IfBusy if_busy) ASHLAR_EXCLUDES(mutex_);
  void end_collecting(PinnedBlockList& finished, const Status& failure) ASHLAR_EXCLUDES(mutex_);
  // Releases all free blocks that can be released to the host.
  void release_cached() ASHLAR_EXCLUDES(mutex_);
  // Releases the blocks in `to_release_`.
  void release_queued() ASHLAR_EXCLUDES(mutex_);
  void defer_error(const Status& failure) ASHLAR_REQUIRES(mutex_);

  Device& device_;
  Clock& clock_;
  const ForkGuard fork_guard_;
  const PinnedSizePolicy size_policy_;
  PinnedSource source_;
  PinnedPending pending_;

  mutable Mutex mutex_;
  std::condition_variable collected_;
  bool collecting_ ASHLAR_GUARDED_BY(mutex_) = false;         // only one thread polls at a time
  std::deque<PinnedBlock> blocks_ ASHLAR_GUARDED_BY(mutex_);  // including unused records
  PinnedBlockList unused_ ASHLAR_GUARDED_BY(mutex_);          // records without memory
  BlocksByAddress by_address_ ASHLAR_GUARDED_BY(mutex_);
  PinnedPools pools_ ASHLAR_GUARDED_BY(mutex_);
  PinnedBlockList to_release_ ASHLAR_GUARDED_BY(mutex_);  // to be released to the host
  // The blocks that each capture used.
  std::map<CaptureId, std::vector<PinnedBlock*>> captured_ ASHLAR_GUARDED_BY(mutex_);
  HostStats stats_ ASHLAR_GUARDED_BY(mutex_);  // HostStats::size_classes is empty
  // Blocks created since the last reset of totals, by size class.
  std::vector<int64_t> class_counts_ ASHLAR_GUARDED_BY(mutex_);
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);  // returned by the next allocate or trim

  // Declared last, so that the poller's thread ends before anything that it uses is destroyed.
  std::unique_ptr<Poller> poller_;  // null: allocate and free poll pending blocks
};

}  // namespace ashlar
