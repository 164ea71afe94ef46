// SPDX-License-Identifier: Apache-2.0
//
// The private pools of an allocator: their use counts, and which streams are routed to which pool.
// Shared by device and pinned memory. The owner manages the contents of the pools.
//
// Not thread safe; guarded by the owner's lock. Filters are user code. They are called under the
// owner's lock (see RouteFilter), but `end` returns the filter, so that the caller can destroy the
// filter without the lock.
#pragma once

#include <map>
#include <vector>

#include "ashlar/pool.h"
#include "ashlar/status.h"

namespace ashlar {

class Routes {
 public:
  // Functions that can fail return kInvalidArgument if the pool does not exist (for `create`: if it
  // already exists; `begin` creates it) or is in the wrong state. A failed call, and a call that
  // throws, changes nothing.

  Status create(PoolId pool);  // the new pool has a use count of 1
  Status retain(PoolId pool);
  Status release(PoolId pool);
  Result<int> use_count(PoolId pool) const;

  // Routes requests on streams that `filter` accepts to the pool; if several filters accept a
  // stream, the routing that began last applies. Creates the pool if necessary and retains it.
  // Moves from `filter` only on success.
  Status begin(PoolId pool, RouteFilter&& filter);
  // Ends the routing and returns the filter. Does not release the pool.
  Result<RouteFilter> end(PoolId pool);

  // Returns the pool that the stream is routed to; the default pool if no filter accepts the
  // stream.
  PoolId pool_id_for(StreamId stream) const;

  bool has(PoolId pool) const { return use_counts_.contains(pool); }
  // Returns whether the pool has a use count of 0 and no route. Its cached memory may then be
  // released, and once empty the pool may be erased. A freeable pool cannot be retained again.
  bool is_freeable(PoolId pool) const;
  // REQUIRES: the pool is freeable.
  void erase(PoolId pool) { use_counts_.erase(pool); }

 private:
  struct Route {
    PoolId pool;
    RouteFilter filter;
  };
  bool is_routed_to(PoolId pool) const;

  std::map<PoolId, int> use_counts_;  // has an entry for every pool
  std::vector<Route> routes_;         // oldest first; all refer to existing pools
};

// Returns the kInvalidArgument error for an unknown pool.
Status no_such_pool(PoolId pool);
// Returns the kInvalidArgument error for setting no_split of a pool that has memory.
Status pool_has_memory_error(PoolId pool);

}  // namespace ashlar
