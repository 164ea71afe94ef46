// A policy that hands out the memory of one device. Everything above speaks to engines through
// this interface; `tests/contract/engine_contract.h` has the suite that each must pass.
//
// Every function may be called from any thread, except that a block is the caller's alone between
// its allocation and its free. User code (trackers, observers, sources of segments, free-memory
// callbacks) is called with no lock held, so that it may call the engine.
#pragma once

#include <functional>
#include <vector>

#include "ashlar/oom_notice.h"
#include "ashlar/pool.h"
#include "ashlar/stats.h"
#include "ashlar/status.h"
#include "ashlar/trace.h"
#include "engine/block.h"

namespace ashlar {

struct Request {
  size_t bytes = 0;  // not 0
  StreamId stream;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual Device& device() const = 0;

  // At a multiple of 256, as drivers promise and kernels rely on. kOutOfMemory: after everything
  // was tried; the message is the report. kUsage: a size of 0.
  virtual Result<Block*> allocate(const Request& request) = 0;
  // REQUIRES: `block` came from allocate and was not freed since. From any thread. If the device
  // fails, the block stays pending, and is tried again with the next allocation.
  virtual Status free(Block* block) = 0;
  // The same for destructors: a failure is reported by the next allocate or trim.
  virtual void free_quietly(Block* block) = 0;
  // The block is also used by work queued so far in that stream: it is not reused before that work
  // is done. Its own stream needs no telling.
  virtual Status record_stream(Block* block, const StreamUse& use) = 0;

  // Gives cached memory back to the device: all of it, or what one pool has. Waits for pending
  // frees. A pool that somebody still holds is left as it is, which is no failure: of several
  // holders, each may trim after letting go. kUsage: there is no such pool (any more).
  virtual Status trim(PoolId pool = {}) = 0;

  // --- limits -------------------------------------------------------------------------------
  // Of the device's capacity. kUsage: outside of [0, 1].
  virtual Status set_memory_fraction(double fraction) = 0;
  virtual double memory_fraction() const = 0;

  // --- pools ----------------------------------------------------------------------------------
  // kUsage, in all of these: there is no such pool, or it is not in the state named.
  virtual Status create_pool(PoolId pool, PoolOptions options) = 0;
  virtual Status retain_pool(PoolId pool) = 0;
  // When the last holder lets go, the pool is freeable: its memory returns with the next trim.
  virtual Status release_pool(PoolId pool) = 0;
  virtual Result<int> pool_use_count(PoolId pool) const = 0;
  // From here on, allocations that `filter` accepts go to the pool; of several, to the pool named
  // last. Makes the pool if there is none, and holds it; end_routing does not let go.
  virtual Status begin_routing(PoolId pool, RouteFilter filter) = 0;
  virtual Status end_routing(PoolId pool) = 0;
  // Between these, streams of this device may be capturing. kUsage: more ends than beginnings.
  virtual void capture_began() = 0;
  virtual Status capture_ended() = 0;

  // --- looking ----------------------------------------------------------------------------------
  virtual AllocatorStats stats() const = 0;
  virtual void reset_peak_stats() = 0;
  virtual void reset_total_stats() = 0;

  // --- hooks --------------------------------------------------------------------------------
  virtual void add_tracker(TraceTracker tracker) = 0;
  virtual void add_oom_observer(std::function<void(const OomNotice&)> observer) = 0;
  virtual void add_rejection_observer(std::function<void(const OomNotice&)> observer) = 0;
  // Asked after a miss; true means that something was freed, and looking again may help.
  virtual void add_free_memory_callback(std::function<bool()> callback) = 0;
};

}  // namespace ashlar
