// SPDX-License-Identifier: Apache-2.0
//
// A policy that hands out the memory of one device. Everything above speaks to engines through
// this interface; `tests/contract/engine_contract.h` has the suite that each must pass.
//
// Every function may be called from any thread, except that a block is the caller's alone between
// its allocation and its free. User code (trackers, observers, sources of segments, free-memory
// callbacks) is called with no lock held, so that it may call the engine; it must not throw.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/checkpoint.h"
#include "ashlar/expandable_use.h"
#include "ashlar/oom_notice.h"
#include "ashlar/pool.h"
#include "ashlar/remap.h"
#include "ashlar/snapshot.h"
#include "ashlar/stats.h"
#include "ashlar/status.h"
#include "ashlar/trace.h"
#include "engine/block.h"
#include "engine/block_table.h"
#include "engine/giving_back.h"
#include "observe/history.h"

namespace ashlar {

struct Request {
  size_t bytes = 0;  // not 0
  StreamId stream{};
  StackId stack{};  // of the caller, where history asks for it
};

// What restoring a checkpoint changed. An address may be in both: whoever had it before has it no
// more.
struct CheckpointChange {
  std::vector<DeviceAddress> freed;  // were allocated, and are not the caller's any more
  std::vector<Block*> allocated;     // are allocated now; the caller's to free
};

// Where the memory of a block comes from: what sharing it with another process needs to know.
struct BlockMemory {
  enum class Origin {
    kAllocation,  // one plain allocation of the device: `range` is all of it
    kExtents,     // extents mapped in a row: `range` is those that the block touches
    kSource,      // a pool's own source of segments, of which the engine knows no more
    kPaused,      // none at the moment: its pool is paused
  };
  Origin origin = Origin::kAllocation;
  AddressRange range{};             // contains the block
  std::vector<ExtentId> extents{};  // of kExtents, in address order, each of granule_bytes
  size_t granule_bytes = 0;
  bool can_export_fd = false;  // the extents were made so that they can travel
};

// What an engine holds at one moment, in the words of a snapshot.
struct Holdings {
  std::vector<SnapshotSegment> segments{};  // by address
  // Of engines that have them. The times of mappings are still ticks (History::date).
  std::vector<SnapshotView> views{};
  std::vector<SnapshotExtent> extents{};
  History::Moment moment{};  // what was recorded later is not of it
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual Device& device() const = 0;
  // Blocks that were handed out as plain addresses: whoever does that enters them, and the engine
  // removes them when they are merged with others. A block that is in here may have been freed.
  BlockTable& addresses() { return addresses_; }

  // At a multiple of 256, as drivers promise and kernels rely on. kOutOfMemory: after everything
  // was tried; the message is the report. kInvalidArgument: a size of 0.
  virtual Result<Block*> allocate(const Request& request) = 0;
  // The same where nothing has to be done for it, for whom no stack is wanted. Null: ask
  // `allocate`. All it is told and tells stays in registers.
  virtual Block* allocate_fast(size_t bytes, StreamId stream) noexcept;
  // REQUIRES: `block` came from allocate, and has not been allocated again since it was freed, if
  // it was. From any thread. kInvalidArgument: it was. If the device fails, the block stays
  // pending, and is tried again with the next allocation.
  virtual Status free(Block* block, StackId stack = {}) = 0;
  // The same for destructors: a failure is reported by the next allocate or trim.
  virtual void free_quietly(Block* block, StackId stack = {}) = 0;
  // The block is also used by work queued so far in that stream: it is not reused before that work
  // is done. Its own stream needs no telling.
  virtual Status record_stream(Block* block, const StreamUse& use) = 0;

  // --- sharing and peers --------------------------------------------------------------------
  // A held block that is freed stays pending, memory and all, until everybody who held it has let
  // go; then the free goes on as usual. REQUIRES: the block is allocated, or held already.
  virtual void pin(Block* block) = 0;
  // From any thread. REQUIRES: held. If the device fails, the next allocate or trim says so.
  virtual void unpin(Block* block) = 0;
  // What it says stays true while the block is held, or allocated in a pool that is not paused.
  virtual BlockMemory memory_of(const Block* block) const = 0;
  // Another device may touch this one's memory: what there is, and what will be.
  virtual Status add_accessor(DeviceIndex accessor) = 0;
  // Whether that was said of the device; true for the engine's own.
  virtual bool is_accessor(DeviceIndex device) const = 0;

  // --- giving back --------------------------------------------------------------------------
  // Gives cached memory back to the device: all of it, or what one pool has. Waits for pending
  // frees. A pool that somebody still holds is left as it is, which is no failure: of several
  // holders, each may trim after letting go. kInvalidArgument: there is no such pool (any more).
  virtual Status trim(PoolId pool = {}, StackId stack = {}) = 0;
  // The same for as much as is needed to have no more reserved than the target says, in whole
  // extents or segments; says how many bytes went back. Unless it is told to, it never waits:
  // memory that work may still use stays, and can be used as before. Memory of pools that nobody
  // holds any more goes first.
  virtual Result<size_t> trim_to(const TrimTarget& target) = 0;

  // --- pausing ------------------------------------------------------------------------------
  // Gives the memory of all pools with this tag back to the device, while their blocks keep their
  // addresses; and gets memory for them again. With `keep_contents`, the host keeps what the blocks
  // hold meanwhile; without, it is undefined afterwards. Both wait for work that uses those blocks,
  // and for nothing else; doing either twice is doing it once. If the device fails half-way, the
  // pools count as paused, nothing that was kept is lost, and either may be called again.
  // kInvalidArgument: no pool has the tag; some block is held, or some stream captures; from an
  // observer of remapping. kUnsupported: the engine, or a pool made of whole segments, cannot do
  // this.
  virtual Status pause(std::string_view tag, bool keep_contents);
  virtual Status resume(std::string_view tag);

  // --- limits -------------------------------------------------------------------------------
  // Of the device's capacity. kInvalidArgument: outside of [0, 1].
  virtual Status set_memory_fraction(double fraction) = 0;
  virtual double memory_fraction() const = 0;
  // While caching is off, each allocation is the device's own and goes back to it when it is free:
  // for tools that check memory accesses. What is cached already stays cached, and captures always
  // get cached memory, which is their graph's.
  virtual void set_caching(bool caching) = 0;
  virtual bool is_caching() const = 0;
  // How many addresses the stream's expandable segments reserve goes by its class, if it has one
  // (expandable_segments_reserve_by_class); an empty class clears it. A default for a class counts
  // where the options say nothing.
  virtual void set_stream_class(StreamId stream, std::string name) = 0;
  virtual std::string stream_class(StreamId stream) const = 0;
  virtual void set_default_class_fraction(const std::string& name, double capacity_fraction) = 0;

  // --- pools ----------------------------------------------------------------------------------
  // kInvalidArgument, in all of these: there is no such pool, or it is not in the state named.
  virtual Status create_pool(PoolId pool, PoolOptions options) = 0;
  virtual Status retain_pool(PoolId pool) = 0;
  // When the last holder lets go, the pool is freeable: its memory returns with the next trim.
  virtual Status release_pool(PoolId pool) = 0;
  virtual Result<int> pool_use_count(PoolId pool) const = 0;
  // From here on, allocations that `filter` accepts go to the pool; of several, to the pool named
  // last. Makes the pool if there is none, and holds it; end_routing does not let go.
  virtual Status begin_routing(PoolId pool, RouteFilter filter) = 0;
  virtual Status end_routing(PoolId pool) = 0;
  // Between these, streams of this device may be capturing. kInvalidArgument: more ends than
  // beginnings.
  virtual void capture_began() = 0;
  virtual Status capture_ended() = 0;
  // The addresses of the pool's allocated blocks, in order.
  virtual Result<std::vector<DeviceAddress>> live_in_pool(PoolId pool) const = 0;
  // The state of a pool, and setting it back to that. kInvalidArgument: there is no such pool, a
  // block still waits for other streams, or a segment is gone since; nothing changed then.
  virtual Result<PoolCheckpoint> checkpoint(PoolId pool) = 0;
  virtual Result<CheckpointChange> restore(const PoolCheckpoint& checkpoint) = 0;

  // --- looking ----------------------------------------------------------------------------------
  // The engine records into it; callers start it, capture stacks with it, and read it.
  History& history() { return history_; }
  // What is held, of one pool or of all; stacks are the history's. The look is an act of its own,
  // and recorded.
  virtual Holdings holdings(std::optional<PoolId> pool = {}) = 0;
  std::vector<SnapshotSegment> segments(std::optional<PoolId> pool = {}) {
    return holdings(pool).segments;
  }
  // Records what the user says about a live block. kInvalidArgument: none starts there.
  virtual Status annotate(DeviceAddress address, const std::string& said) = 0;
  virtual AllocatorStats stats() const = 0;
  virtual void reset_peak_stats() = 0;
  virtual void reset_total_stats() = 0;
  // The largest block that an allocation could get without asking the device, on the right stream
  // and from the right pool. 0: nothing is cached.
  virtual size_t largest_cached_bytes() const = 0;
  virtual std::vector<ExpandableUse> expandable_segments() const = 0;

  // --- hooks --------------------------------------------------------------------------------
  virtual void add_tracker(TraceTracker tracker) = 0;
  virtual void add_oom_observer(std::function<void(const OomNotice&)> observer) = 0;
  virtual void add_rejection_observer(std::function<void(const OomNotice&)> observer) = 0;
  // Asked after a miss; true means that something was freed, and looking again may help.
  virtual void add_free_memory_callback(std::function<bool()> callback) = 0;
  // It hears of what is mapped already before this returns. kUnsupported: the engine cannot tell.
  virtual Status add_remap_observer(RemapObserver observer);

 protected:
  BlockTable addresses_;
  History history_;  // thread safe
};

}  // namespace ashlar
