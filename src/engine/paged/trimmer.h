// SPDX-License-Identifier: Apache-2.0
//
// Returns cached memory to the device: whole idle extents and whole segments.
//
//   detach idle extents -> wait for, or query, the streams that used them -> announce -> release
//
// A trim that must not wait releases memory of idle streams, but the streams of a busy program may
// never be idle. Therefore such a trim sets aside memory that may still be in use, and records an
// event on the stream that last used the memory. The next trim releases the memory if the event is
// done. Requests may still use the memory in between.
//
// If host memory is exhausted, a trim throws std::bad_alloc; extents that it detached stay idle.
//
// All functions need the engine's lock, and may release it to call observers and sources.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/paged/config.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/extent_mover.h"
#include "engine/paged/extent_store.h"
#include "engine/paged/pending_blocks.h"
#include "engine/paged/pool_table.h"
#include "engine/paged/segment_store.h"
#include "engine/paged/stream_monitor.h"
#include "engine/paged/view_table.h"

namespace ashlar::paged {

class Trimmer {
 public:
  Trimmer(const PagedConfig& config, PoolTable& pools, ExtentStore& extents, ViewTable& views,
          ExtentMover& mover, SegmentStore& segments, PendingBlocks& pending,
          StreamMonitor& streams, DeferredError& error)
      : config_(config),
        pools_(pools),
        extents_(extents),
        views_(views),
        mover_(mover),
        segments_(segments),
        pending_(pending),
        streams_(streams),
        error_(error) {}

  // Releases the cached memory of one pool, if PoolTable::trimmable_pools lists it, or of all such
  // pools if `pool` is the default one. Waits for pending frees, unless `pool` is the default pool
  // and a capture is in progress.
  Status trim(PoolId pool) ASHLAR_REQUIRES(engine_lock);
  // Releases memory until at most `target.reserved_bytes` are held, or as much as possible, and
  // returns the number of bytes released.
  Result<size_t> trim_to(const TrimTarget& target) ASHLAR_REQUIRES(engine_lock);

 private:
  // How far the streams of a pool have progressed.
  struct Progress {
    std::set<const Arena*> idle{};              // lending arenas whose streams are idle
    std::map<const Arena*, uint64_t> passed{};  // the round of the marker that the stream passed

    bool has_passed(const Extent& extent) const {
      const auto found = passed.find(extent.arena);
      return found != passed.end() && found->second == extent.marker_round;
    }
    bool is_unused(const Extent& extent) const {
      return has_passed(extent) || idle.contains(extent.arena);
    }
  };

  // The next three functions release about `wanted_bytes`, or as much as possible if there is less,
  // and return the number of bytes released.
  size_t trim_pool(PoolId pool, size_t wanted_bytes, TrimWait wait) ASHLAR_REQUIRES(engine_lock);
  size_t release_extents(PagedPool& pool, size_t wanted_bytes, TrimWait wait)
      ASHLAR_REQUIRES(engine_lock);
  size_t release_segments(PagedPool& pool, size_t wanted_bytes, TrimWait wait)
      ASHLAR_REQUIRES(engine_lock);

  void query_progress(Arena& arena, Progress& progress) ASHLAR_REQUIRES(engine_lock);
  std::vector<Extent*> take_idle(PagedPool& pool, std::span<Arena* const> arenas,
                                 size_t wanted_bytes, TrimWait wait, const Progress& progress)
      ASHLAR_REQUIRES(engine_lock);
  std::vector<Extent*> detach_cheapest(std::vector<Extent*>& extents, size_t wanted_bytes,
                                       const Progress& progress) ASHLAR_REQUIRES(engine_lock);
  void set_aside_busy(std::vector<Extent*>& taken, Progress& progress) ASHLAR_REQUIRES(engine_lock);
  size_t release(PagedPool& pool, const std::vector<Extent*>& unused) ASHLAR_REQUIRES(engine_lock);
  bool are_all_streams_idle() ASHLAR_REQUIRES(engine_lock);

  const PagedConfig& config_;
  PoolTable& pools_;
  ExtentStore& extents_;
  ViewTable& views_;
  ExtentMover& mover_;
  SegmentStore& segments_;
  PendingBlocks& pending_;
  StreamMonitor& streams_;
  DeferredError& error_;
};

}  // namespace ashlar::paged
