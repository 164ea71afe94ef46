// SPDX-License-Identifier: Apache-2.0
//
// The pools of an engine, and the routing of allocations to them. The default pool always exists.
// All functions need the engine's lock.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/routes.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/peak_tracker.h"
#include "engine/paged/pool/paged_pool.h"
#include "engine/paged/stream_monitor.h"

namespace ashlar::paged {

// Returns the error for an allocation from, or a restore of, a paused pool.
Status pool_paused_error(const PagedPool& pool);

class PoolTable {
 public:
  using Map = std::map<PoolId, std::unique_ptr<PagedPool>>;

  // If `are_all_plain`, all pools consist of plain segments.
  PoolTable(bool are_all_plain, PeakTracker& peaks, StreamMonitor& streams, BlockTable& addresses)
      : are_all_plain_(are_all_plain), peaks_(peaks), streams_(streams), addresses_(addresses) {}

  const Map& all() const ASHLAR_REQUIRES(engine_lock) { return pools_; }
  PagedPool& default_pool() const ASHLAR_REQUIRES(engine_lock) { return *pools_.at({}); }
  // Returns null if there is no such pool.
  PagedPool* find(PoolId pool) const ASHLAR_REQUIRES(engine_lock);
  PagedPool& pool_for(StreamId stream) const ASHLAR_REQUIRES(engine_lock) {
    return *pools_.at(routes_.pool_id_for(stream));
  }
  // Returns the pools with this tag. kInvalidArgument: the tag is empty, or no pool has it.
  Result<std::vector<PagedPool*>> find_tagged(std::string_view tag) const
      ASHLAR_REQUIRES(engine_lock);
  // Returns the pools whose memory may be trimmed, freeable pools first. Returns ids instead of
  // pointers, because pools may be destroyed while the lock is released.
  std::vector<PoolId> trimmable_pools() const ASHLAR_REQUIRES(engine_lock);
  bool is_freeable(PoolId pool) const ASHLAR_REQUIRES(engine_lock) {
    return routes_.is_freeable(pool);
  }

  // Creates the default pool.
  void add_default_pool() ASHLAR_REQUIRES(engine_lock) { pools_.insert(make_pool({}, {})); }
  Status create(PoolId pool, PoolOptions options) ASHLAR_REQUIRES(engine_lock);
  // Destroys the pool, and returns true, if it is freeable and has neither memory nor an operation
  // in flight.
  bool erase_if_unused(PoolId pool) noexcept ASHLAR_REQUIRES(engine_lock);
  Arena& arena_of(PagedPool& pool, StreamId stream) ASHLAR_REQUIRES(engine_lock) {
    return peaks_.arena_of(pool, stream, addresses_);
  }

  Routes& routes() ASHLAR_REQUIRES(engine_lock) { return routes_; }
  const Routes& routes() const ASHLAR_REQUIRES(engine_lock) { return routes_; }
  // If the call fails, `filter` is unchanged: it is user code and must be destroyed without the
  // lock.
  Status begin_routing(PoolId pool, RouteFilter&& filter) ASHLAR_REQUIRES(engine_lock);
  // Returns the filter, which is user code and must be destroyed without the lock.
  Result<RouteFilter> end_routing(PoolId pool) ASHLAR_REQUIRES(engine_lock);
  bool has_routes() const ASHLAR_REQUIRES(engine_lock) { return route_count_ != 0; }

  // Call at the end of a trim, a pause or a resume: wakes the threads that wait for `changed`.
  void notify_changed() { changed_.notify_all(); }
  std::condition_variable& changed() { return changed_; }

 private:
  // Returns a pool that can be inserted into `pools_` without an allocation.
  Map::node_type make_pool(PoolId pool, PoolOptions options) const;

  const bool are_all_plain_;
  PeakTracker& peaks_;
  StreamMonitor& streams_;
  BlockTable& addresses_;
  Map pools_ ASHLAR_GUARDED_BY(engine_lock);
  Routes routes_ ASHLAR_GUARDED_BY(engine_lock);
  int route_count_ ASHLAR_GUARDED_BY(engine_lock) = 0;
  std::condition_variable changed_;
};

}  // namespace ashlar::paged
