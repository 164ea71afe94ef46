// SPDX-License-Identifier: Apache-2.0
//
// The interface of an engine: a policy that hands out the memory of one device. Code above this
// layer uses only this interface; `tests/contract/engine_contract.h` is the suite that every engine
// must pass.
//
// Thread safe, except that a block belongs to its caller between allocate and free. Trackers,
// observers, segment sources and free-memory callbacks are called with no lock held, so they may
// call the engine. Route filters are called with the engine's lock held, so they must not call the
// engine. None of these functions may throw.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/checkpoint.h"
#include "ashlar/hooks.h"
#include "ashlar/pool.h"
#include "ashlar/snapshot.h"
#include "ashlar/stats.h"
#include "ashlar/status.h"
#include "ashlar/trace.h"
#include "base/fork_guard.h"
#include "engine/block.h"
#include "engine/block_table.h"
#include "engine/trim_selection.h"
#include "observe/history.h"

namespace ashlar {

struct AllocationRequest {
  size_t bytes = 0;  // must not be 0
  StreamId stream{};
  StackId stack{};  // the caller's stack, if history records stacks
};

// The result of restoring a checkpoint. An address appears in both lists if the block there was
// freed and then allocated again; the previous owner of the address no longer owns it.
struct RestoreResult {
  std::vector<DeviceAddress> freed;  // freed by the restore; the caller no longer owns them
  std::vector<Block*> allocated;     // allocated by the restore; the caller must free them
};

// The memory behind a block, as needed to share the block with another process.
struct BlockMemory {
  enum class Origin {
    kAllocation,  // one plain device allocation, which `range` covers
    kExtents,     // consecutive extents; `range` covers those that the block overlaps
    kSource,      // the SegmentSource of the pool or the engine; no further details are known
    kPaused,      // no memory, because the block's pool is paused
  };
  Origin origin = Origin::kAllocation;
  AddressRange range{};             // contains the block; empty if paused
  std::vector<ExtentId> extents{};  // kExtents only: in address order, granule_bytes each
  size_t granule_bytes = 0;
  bool can_export_fd = false;  // whether the extents were created as exportable
};

// The state of an engine at one point in its history, expressed in the Snapshot* types.
struct EngineSnapshot {
  std::vector<SnapshotSegment> segments{};  // in address order
  // Creation numbers of the segments, keyed by address. Within a pool, later segments have greater
  // numbers. Communicators register segments in this order, because it is the same on all ranks.
  std::map<DeviceAddress, uint64_t> creation_numbers{};
  // Views and extents; both lists are empty for engines without views. The times of the extents'
  // mappings are in ticks; see History::convert_times.
  std::vector<SnapshotView> views{};
  std::vector<SnapshotExtent> extents{};
  History::Position position{};  // later entries are not part of the snapshot
};

// Appends a block to the end of a snapshot segment, and updates the totals of the segment.
void append_block(const Block& block, SnapshotSegment& segment);

class Engine {
 public:
  virtual ~Engine() = default;

  // Forks.
  //
  // A forked child must neither use nor destroy an engine of its parent: threads of the parent may
  // have held the engine's locks. Callers of the engine check for forks, because the engine's fast
  // path does not.

  bool in_creating_process() const { return fork_guard_.in_creating_process(); }
  // Returns kInvalidArgument in a forked child.
  Status check_not_forked() const { return fork_guard_.check_not_forked("the allocator"); }
  // Makes callers leave the engine's fast path in a forked child (History::set_inherited).
  // REQUIRES: the child has only one thread.
  void set_inherited() { history_.set_inherited(); }

  virtual Device& device() const = 0;
  // Blocks whose addresses were handed out as plain pointers. Code that hands out a pointer inserts
  // the block; the engine removes the entry before it merges the block with a neighbour. An entry
  // may refer to a freed block.
  BlockTable& addresses() { return addresses_; }

  // Returns a block aligned to 256 bytes, which drivers guarantee and kernels expect; with a
  // plug-in, the alignment is the plug-in's. kOutOfMemory: the size is unreasonable, or all
  // permitted reclaim steps failed; the message is then a full report. kInvalidArgument: `bytes` is
  // 0, the pool is paused, or the engine cannot serve a stream that is capturing.
  virtual Result<Block*> allocate(const AllocationRequest& request) = 0;
  // Fast path, for callers that record no stack. Returns null if it cannot serve the request; the
  // caller then calls `allocate`. Arguments and result stay in registers.
  virtual Block* allocate_fast(size_t bytes, StreamId stream) noexcept;
  // REQUIRES: `block` came from this engine's allocate and, if already freed, has not been
  // allocated again. May be called from any thread. kInvalidArgument: the block has already been
  // freed. If the device fails, the engine keeps the memory, and a later allocation or trim
  // retries.
  virtual Status free(Block* block, StackId stack = {}) = 0;
  // Like free, but returns kInvalidArgument if the block belongs to another engine. Needed where
  // users pass blocks.
  virtual Status free_if_owned(Block* block, StackId stack) = 0;
  // Returns whether the block came from this engine.
  virtual bool owns(const Block* block) const = 0;
  // Like free, but returns no error, for use in destructors. The next allocate or trim reports the
  // error.
  virtual void free_quietly(Block* block, StackId stack = {}) = 0;
  // Declares that work queued so far on `use` also accesses the block, so that the block is not
  // reused before that work finishes. Not needed for the block's own stream.
  virtual Status record_stream(Block* block, const DeviceStream& use) = 0;

  // Sharing and peer access.
  //
  // A pinned block that is freed stays pending and keeps its memory until the last unpin, which
  // continues the free. REQUIRES: the block is allocated or already pinned.
  virtual void pin(Block* block) = 0;
  // Undoes one pin. May be called from any thread. The next allocate or trim reports a device
  // failure. REQUIRES: the block is pinned.
  virtual void unpin(Block* block) = 0;
  // Returns the memory behind a block. The result stays valid while the block is pinned, or
  // allocated in a pool that is not paused.
  virtual BlockMemory block_memory(const Block* block) const = 0;
  // Grants another device access to all present and future extents of the engine. Plain segments
  // are accessible once the caller has enabled peer access. kUnsupported: other devices cannot
  // access the engine's memory.
  virtual Status add_accessor(DeviceIndex accessor) = 0;
  // Whether `device` has access. Always true for the engine's own device.
  virtual bool is_accessor(DeviceIndex device) const = 0;

  // Releasing memory.
  //
  // Returns cached memory to the device: the memory of `pool`, if it has been released, or, if
  // `pool` is the default pool, the memory of the default pool and of all released pools. Waits for
  // pending frees, unless `pool` is the default pool and a capture is in progress. Keeps the
  // default pool's memory during captures. Succeeds without effect while `pool` is retained, so
  // that each of several owners may call trim after its own release_pool. kInvalidArgument: no such
  // pool.
  virtual Status trim(PoolId pool = {}, StackId stack = {}) = 0;
  // Returns whole extents or segments until at most `target.reserved_bytes` are reserved, and
  // reports the number of bytes returned. Without TrimWait::kForWork, trim_to never waits: memory
  // that queued work may use stays cached. Memory of released pools is returned first.
  virtual Result<size_t> trim_to(const TrimTarget& target) = 0;

  // Pausing.
  //
  // `pause` waits for the work that uses the pools' blocks, or for the whole device if a stream of
  // that work has been destroyed. `resume` waits until saved contents are copied back, and trims if
  // memory runs out. Both are idempotent. If the device fails while memory is released or restored,
  // the pools whose memory is incomplete count as paused, saved contents are kept, and either
  // function may be called again. If `pause` fails before it releases any memory of a pool, that
  // pool is not paused. kInvalidArgument: no pool has the tag, a block is pinned, a stream is
  // capturing, or the caller is a remap observer. kUnsupported: the engine cannot pause pools, or a
  // pool with the tag has plain segments or an uncached block.

  // Returns the memory of all pools with this tag to the device while their blocks keep their
  // addresses. With `keep_contents` the contents are saved in host memory; otherwise they are
  // undefined after resume.
  virtual Status pause(std::string_view tag, bool keep_contents);
  // Restores the memory behind the blocks of all pools with this tag.
  virtual Status resume(std::string_view tag);

  // Limits.
  //
  // Limits reserved memory to a fraction of the device's capacity. kInvalidArgument: `fraction` is
  // not in [0, 1].
  virtual Status set_memory_fraction(double fraction) = 0;
  virtual double memory_fraction() const = 0;
  // With caching off, each allocation is a separate device allocation that returns to the device
  // when freed, as memory-access checkers need. Memory that is already cached stays cached until a
  // trim or until device memory runs out. Captures use cached memory even with caching off: a graph
  // needs its memory at every launch, so a free must not return it to the device.
  virtual void set_caching(bool caching) = 0;
  virtual bool is_caching() const = 0;
  // Takes allocations of the stream off the fast path until the engine's next allocation on the
  // stream. The C API calls this after it destroys a stream, so that its slow path can reject
  // allocations on that stream. May be called for any stream.
  virtual void leave_fast_path(StreamId stream);
  // Sets the stream's class, which determines how much address space the stream's expandable
  // segments reserve (expandable_segments_reserve_by_class). The paged engine only stores the name.
  // An empty name clears the class.
  virtual void set_stream_class(StreamId stream, std::string name) = 0;
  virtual std::string stream_class(StreamId stream) const = 0;
  // Sets the share of the device's capacity that the expandable segments of a class reserve if the
  // options set a size neither for the class nor for all streams. The paged engine ignores this
  // setting.
  virtual void set_default_class_fraction(const std::string& name, double capacity_fraction) = 0;

  // Pools. The functions that take a pool return kInvalidArgument if the pool does not exist (for
  // create_pool: if it exists already) or is in the wrong state.
  virtual Status create_pool(PoolId pool, PoolOptions options) = 0;
  virtual Status retain_pool(PoolId pool) = 0;
  // After the last release, the next trim returns the pool's cached memory, unless allocations are
  // still routed to the pool.
  virtual Status release_pool(PoolId pool) = 0;
  virtual Result<int> pool_use_count(PoolId pool) const = 0;
  // Changes PoolOptions::use_on_oom of a private pool.
  virtual Status set_pool_use_on_oom(PoolId pool, bool use_on_oom) = 0;
  // Sets PoolOptions::no_split of a private pool. kInvalidArgument also if the pool has memory.
  virtual Status set_pool_no_split(PoolId pool) = 0;
  // Routes allocations on streams that `filter` accepts to the pool; if several filters accept a
  // stream, the routing that began last applies. Creates the pool if necessary and retains it.
  virtual Status begin_routing(PoolId pool, RouteFilter filter) = 0;
  // Ends the routing. Does not release the pool.
  virtual Status end_routing(PoolId pool) = 0;
  // Declares that streams of this device may be capturing until the matching capture_ended.
  virtual void capture_began() = 0;
  // kInvalidArgument: there was no matching capture_began.
  virtual Status capture_ended() = 0;
  // Returns the addresses of the pool's allocated blocks, in ascending order.
  virtual Result<std::vector<DeviceAddress>> live_in_pool(PoolId pool) const = 0;
  // Records the state of a private pool. kInvalidArgument: no such pool, the pool has been
  // released, or a block cannot be recorded (check_recordable).
  virtual Result<PoolCheckpoint> checkpoint(PoolId pool) = 0;
  // Returns the pool to the recorded state. kInvalidArgument: no such pool, the pool is paused, a
  // block cannot be restored (check_restorable), or memory of the checkpoint has been released
  // since. A failed call changes no allocated block.
  virtual Result<RestoreResult> restore(const PoolCheckpoint& checkpoint) = 0;

  // Introspection.
  //
  // The engine records into the history; callers start it, capture stacks and read it.
  History& history() { return history_; }
  // Returns the state of one pool, or of all pools. Stack ids refer to the engine's history. The
  // call is recorded in the history as TraceAction::kSnapshot.
  virtual EngineSnapshot take_snapshot(std::optional<PoolId> pool = {}) = 0;
  std::vector<SnapshotSegment> segments(std::optional<PoolId> pool = {}) {
    return take_snapshot(pool).segments;
  }
  // Returns the stacks that active blocks and segments refer to, in no particular order.
  virtual std::vector<StackId> stacks_in_use() const = 0;
  // Records a user's annotation of a live block. kInvalidArgument: no live block starts at
  // `address`.
  virtual Status annotate(DeviceAddress address, const std::string& text) = 0;
  virtual AllocatorStats stats() const = 0;
  virtual void reset_peak_stats() = 0;
  virtual void reset_total_stats() = 0;
  // Returns the size of the largest contiguous range of cached memory that one block could use. 0
  // if nothing is cached.
  virtual size_t largest_cached_bytes() const = 0;
  virtual std::vector<ExpandableSegmentStats> expandable_segments() const = 0;

  // Hooks.
  virtual void add_tracker(TraceTracker tracker) = 0;
  virtual void add_oom_observer(std::function<void(const OomNotice&)> observer) = 0;
  virtual void add_rejection_observer(std::function<void(const OomNotice&)> observer) = 0;
  // Adds a callback that returns whether it freed memory. The engine calls the callback after a
  // cache miss or, for allocations that bypass the cache, when the device or the source has no
  // memory left. If the callback freed memory, the engine tries again.
  virtual void add_free_memory_callback(std::function<bool()> callback) = 0;
  // Adds an observer. Before returning, reports to the observer all ranges that are already mapped.
  // kUnsupported: the engine does not report mappings.
  virtual Status add_remap_observer(RemapObserver observer);

 protected:
  BlockTable addresses_;
  History history_;

 private:
  const ForkGuard fork_guard_;
};

}  // namespace ashlar
