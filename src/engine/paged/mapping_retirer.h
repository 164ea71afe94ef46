// SPDX-License-Identifier: Apache-2.0
//
// Keeps the number of mappings and the size of the reserved addresses within bounds. Memory that
// moves between views leaves its old mappings behind for reuse; a program whose sizes never repeat
// would accumulate mappings. Above a bound, the mappings that have been unused for longest are
// retired.
//
// A retired mapping is no longer used. Events are recorded on the streams that may still have work
// on it. A later miss that maps memory, or a trim, notifies observers and unmaps the mapping once
// the events are done. Only retire_all waits for the events. The bounds are therefore not
// invariants: queued work may delay unmapping.
//
// All functions need the engine's lock. Functions that unmap may release it to call observers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "engine/paged/config.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/extent_mover.h"
#include "engine/paged/extent_store.h"
#include "engine/paged/pool_table.h"
#include "engine/paged/stream_monitor.h"
#include "engine/paged/view_table.h"

namespace ashlar::paged {

class MappingRetirer {
 public:
  MappingRetirer(const PagedConfig& config, EngineMutex& mutex, PoolTable& pools,
                 const ExtentStore& extents, ViewTable& views, ExtentMover& mover,
                 StreamMonitor& streams)
      : config_(config),
        mutex_(mutex),
        pools_(pools),
        extents_(extents),
        views_(views),
        mover_(mover),
        streams_(streams) {}

  // Unmaps retired mappings whose events are done, and retires more if a bound is exceeded. Does
  // nothing during captures.
  void enforce_bounds() ASHLAR_REQUIRES(engine_lock);
  // Unmaps all unused mappings that may be retired, after waiting for work that may use them. Keeps
  // mappings whose extents were last used by destroyed streams. Called when the device runs out of
  // mappings or addresses. Does nothing during captures.
  Status retire_all() ASHLAR_REQUIRES(engine_lock);

 private:
  MappingUsage bounds() const ASHLAR_REQUIRES(engine_lock);
  size_t max_unused_mappings(size_t extent_count) const;
  void retire_down_to(const MappingUsage& target) ASHLAR_REQUIRES(engine_lock);
  void retire(const std::vector<UnusedMappings>& unused, const MappingUsage& target)
      ASHLAR_REQUIRES(engine_lock);
  using Events = std::map<Arena*, std::optional<EventId>>;  // no id: recording failed
  // The retirements of one pass. They share a serial, and one event per arena.
  struct Batch {
    uint64_t serial = 0;
    Events events{};
    std::map<PagedPool*, Retirement> retirements{};
  };
  Retirement& prepare(Batch& batch, PagedPool& pool) ASHLAR_REQUIRES(engine_lock);
  void finish(Batch& batch) noexcept ASHLAR_REQUIRES(engine_lock);
  bool record_events(const UnusedMappings& unused, Events& events) ASHLAR_REQUIRES(engine_lock);
  bool vacate(View& view) ASHLAR_REQUIRES(engine_lock);

  std::vector<PagedPool*> retiring_pools() ASHLAR_REQUIRES(engine_lock);
  void unmap_retired() ASHLAR_REQUIRES(engine_lock);
  bool announce_finished() ASHLAR_REQUIRES(engine_lock);
  bool is_finished(Retirement& retirement) ASHLAR_REQUIRES(engine_lock);
  void announce(Retirement& retirement) ASHLAR_REQUIRES(engine_lock);
  void unmap(const UnusedMappings& unused, uint64_t serial) noexcept ASHLAR_REQUIRES(engine_lock);

  const PagedConfig& config_;
  EngineMutex& mutex_;
  PoolTable& pools_;
  const ExtentStore& extents_;
  ViewTable& views_;
  ExtentMover& mover_;
  StreamMonitor& streams_;
  uint64_t last_serial_ ASHLAR_GUARDED_BY(engine_lock) = 0;
  MappingUsage next_attempt_ ASHLAR_GUARDED_BY(engine_lock);  // usage at which to retire again
  // The pools with retirements, and possibly other pools. Avoids a search of all pools, because
  // most programs with many pools retire no mappings.
  std::set<PoolId> retiring_pools_ ASHLAR_GUARDED_BY(engine_lock);
  uint64_t last_announcement_ ASHLAR_GUARDED_BY(engine_lock) = 0;
};

}  // namespace ashlar::paged
