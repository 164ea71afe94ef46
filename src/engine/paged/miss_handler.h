// SPDX-License-Identifier: Apache-2.0
//
// The slow path of an allocation, under the engine's lock:
//
//   1. poll pending frees, and search the arena again
//   2. call the user's free-memory callbacks
//   3. grow: stitch idle and new memory (`Stitcher`), or obtain a segment (`SegmentStore`)
//   4. out of memory: borrow from pools with use_on_oom. Otherwise, except during a capture, take
//      these steps and grow again after each: wait for pending frees, unmap unused mappings if the
//      device lacks mappings, use the memory of destroyed streams, trim all pools.
//   5. report
//
// All functions need the engine's lock, and may release it to call the device or user code.
#pragma once

#include <map>

#include "engine/paged/config.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/extent_mover.h"
#include "engine/paged/extent_store.h"
#include "engine/paged/mapping_retirer.h"
#include "engine/paged/peak_tracker.h"
#include "engine/paged/pending_blocks.h"
#include "engine/paged/pool_table.h"
#include "engine/paged/segment_store.h"
#include "engine/paged/stitcher.h"
#include "engine/paged/stream_monitor.h"
#include "engine/paged/trimmer.h"
#include "engine/size_policy.h"

namespace ashlar::paged {

class MissHandler {
 public:
  // The components of the engine that the slow path uses. They outlive this object.
  struct Dependencies {
    EngineMutex& mutex;
    PoolTable& pools;
    ExtentStore& extents;
    ViewTable& views;
    ExtentMover& mover;
    SegmentStore& segments;
    PendingBlocks& pending;
    StreamMonitor& streams;
    Stitcher& stitcher;
    MappingRetirer& retirer;
    Trimmer& trimmer;
    PeakTracker& peaks;
    RequestTracer& tracer;
  };

  MissHandler(const PagedConfig& config, const Dependencies& deps)
      : config_(config),
        deps_(deps),
        segment_sizes_(AllocatorOptions{}),
        is_caching_(config.options.caching) {}

  Result<Block*> allocate(const AllocationRequest& request) ASHLAR_REQUIRES(engine_lock);

  bool is_caching() const ASHLAR_REQUIRES(engine_lock) { return is_caching_; }
  void set_caching(bool caching) ASHLAR_REQUIRES(engine_lock) { is_caching_ = caching; }

 private:
  Result<Block*> find_or_grow(SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  Result<Block*> allocate_uncached(SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  Block* take_cached(const SlowPathRequest& request, double max_waste) ASHLAR_REQUIRES(engine_lock);
  bool call_free_memory_callbacks() ASHLAR_REQUIRES(engine_lock);
  Result<Block*> grow(SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  Result<Block*> grow_plain(SlowPathRequest& request, size_t segment_bytes)
      ASHLAR_REQUIRES(engine_lock);

  Result<Block*> reclaim_and_retry(SlowPathRequest& request, Status reason)
      ASHLAR_REQUIRES(engine_lock);
  Block* borrow_from_overflow_pools(const SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);
  Result<Block*> retry_with_destroyed_streams(SlowPathRequest& request, Result<Block*> grown)
      ASHLAR_REQUIRES(engine_lock);
  Status report_oom(const SlowPathRequest& request) ASHLAR_REQUIRES(engine_lock);

  const PagedConfig& config_;
  const Dependencies deps_;
  const SizePolicy segment_sizes_;
  bool is_caching_ ASHLAR_GUARDED_BY(engine_lock);
};

}  // namespace ashlar::paged
