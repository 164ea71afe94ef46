// SPDX-License-Identifier: Apache-2.0
//
// The pools of a pinned allocator: caches kept apart from each other, and which requests go to
// which. A block stays with the pool it was obtained for, until that pool is gone. Guarded by the
// allocator's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ashlar/pool.h"
#include "ashlar/status.h"
#include "base/routes.h"
#include "host/pinned_cache.h"

namespace ashlar {

// It is gone when it is freeable, has no block left, and nobody is allocating from it.
struct PinnedPool {
  PinnedPool(PoolId pool_id, const PinnedSizes& sizes) : id(pool_id), cache(sizes) {}

  const PoolId id;
  PinnedCache cache;
  int search_count = 0;    // allocations on their way, which unlock meanwhile
  size_t block_count = 0;  // blocks with memory, whoever has them
};

class PinnedPools {
 public:
  explicit PinnedPools(const PinnedSizes& sizes) : sizes_(sizes), default_({}, sizes) {}

  // These do as in Routes.
  PinnedPool& pool_for(StreamId stream);
  Status begin_routing(PoolId pool, RouteFilter&& filter);
  Result<RouteFilter> end_routing(PoolId pool) { return routes_.end(pool); }
  Status release(PoolId pool) { return routes_.release(pool); }
  Result<int> use_count(PoolId pool) const { return routes_.use_count(pool); }

  // Takes out what can go back to the host: free blocks of the default pool and of freeable ones.
  // Parts of the reserve segment cannot: those of a freeable pool become the default's.
  std::vector<PinnedBlock*> take_returnable();
  void forget_empty_pools();

  size_t cached_count() const;  // over all pools

 private:
  const PinnedSizes& sizes_;
  PinnedPool default_;
  Routes routes_;
  std::map<PoolId, std::unique_ptr<PinnedPool>> pools_;  // those that the routes know
};

}  // namespace ashlar
