// SPDX-License-Identifier: Apache-2.0
//
// The pools of a pinned allocator, each with a separate cache, and the routing of requests to them.
// A block belongs to the pool that it was obtained for, except that take_releasable may move parts
// of the reserve segment to the default pool. Guarded by the allocator's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "ashlar/pool.h"
#include "ashlar/status.h"
#include "base/routes.h"
#include "host/pinned_cache.h"

namespace ashlar {

// One pool: its cache, and the counts that decide when the pool can be destroyed.
struct PinnedPool {
  PinnedPool(PoolId pool_id, const PinnedSizePolicy& sizes) : id(pool_id), cache(sizes) {}

  const PoolId id;
  PinnedCache cache;
  int in_flight_count = 0;  // allocations that run without the lock and need the pool to exist
  size_t block_count = 0;   // blocks with memory, in any state
};

class PinnedPools {
 public:
  explicit PinnedPools(const PinnedSizePolicy& sizes) : size_policy_(sizes), default_({}, sizes) {}

  // The next five functions work like the corresponding functions of Routes.
  PinnedPool& pool_for(StreamId stream);
  Status begin_routing(PoolId pool, RouteFilter&& filter);
  Result<RouteFilter> end_routing(PoolId pool) { return routes_.end(pool); }
  Status release(PoolId pool) { return routes_.release(pool); }
  Result<int> use_count(PoolId pool) const { return routes_.use_count(pool); }

  // Moves the blocks that can be released to the host to `taken`: free blocks of the default pool
  // and of freeable pools. Parts of the reserve segment in a freeable pool move to the default
  // pool.
  void take_releasable(PinnedBlockList& taken);
  // Destroys every freeable pool that has no blocks and no allocation in progress, except the
  // default pool.
  void erase_empty_pools();

  size_t cached_count() const;  // free blocks in all pools

 private:
  const PinnedSizePolicy& size_policy_;
  PinnedPool default_;
  Routes routes_;
  std::map<PoolId, std::unique_ptr<PinnedPool>> pools_;  // the same pools as in `routes_`
};

}  // namespace ashlar
