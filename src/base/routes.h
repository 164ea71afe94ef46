// SPDX-License-Identifier: Apache-2.0
//
// The pools beside the default one, by name: who holds each of them, and which requests go to
// which. The same for device memory and for pinned memory; what is in a pool is its owner's
// business.
//
// Not thread safe: guarded by its owner's lock. Filters are user code: they are called under that
// lock, as RouteFilter says, but handed back to be dropped without it.
#pragma once

#include <map>
#include <vector>

#include "ashlar/pool.h"
#include "ashlar/status.h"

namespace ashlar {

class Routes {
 public:
  // kInvalidArgument, in all of these: there is no such pool, or it is not in the state named;
  // nothing changed.
  Status create(PoolId pool);  // and holds it
  Status retain(PoolId pool);
  Status release(PoolId pool);
  Result<int> use_count(PoolId pool) const;

  // From here on, requests whose streams the filter accepts go to the pool; of several pools, to
  // the one named last. Creates the pool if there is none, and holds it. The filter is taken only
  // if that worked.
  Status begin(PoolId pool, RouteFilter&& filter);
  // Does not let go of the pool.
  Result<RouteFilter> end(PoolId pool);

  // The default pool if no filter accepts the stream.
  PoolId pool_for(StreamId stream) const;

  bool has(PoolId pool) const { return use_counts_.contains(pool); }
  // Nobody holds it or routes to it: what it has cached may go, and once it is empty it may be
  // forgotten. A freeable pool cannot be held again.
  bool is_freeable(PoolId pool) const;
  // REQUIRES: freeable.
  void forget(PoolId pool) { use_counts_.erase(pool); }

 private:
  struct Route {
    PoolId pool;
    RouteFilter filter;
  };
  bool is_routed_to(PoolId pool) const;

  std::map<PoolId, int> use_counts_;  // of every pool there is
  std::vector<Route> routes_;         // in the order they were named; pools there are
};

// kInvalidArgument, for whoever looks for a pool that is not there.
Status no_such_pool(PoolId pool);

}  // namespace ashlar
