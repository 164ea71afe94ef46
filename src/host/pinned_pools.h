// The pools of a pinned allocator: caches kept apart from each other, and which requests go to
// which. A block stays with the pool it was obtained for, until that pool is gone. Guarded by the
// allocator's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ashlar/pool.h"
#include "ashlar/status.h"
#include "host/pinned_cache.h"

namespace ashlar {

// It is gone when nobody holds it or routes to it, it has no block left, and nobody is allocating
// from it.
struct PinnedPool {
  PinnedPool(PoolId pool_id, const PinnedSizes& sizes) : id(pool_id), cache(sizes) {}

  const PoolId id;
  PinnedCache cache;
  int use_count = 0;
  int search_count = 0;     // allocations on their way, which unlock meanwhile
  size_t block_count = 0;   // blocks with memory, whoever has them
  RouteFilter filter = {};  // requests it accepts come here; null: none do

  bool is_freeable() const { return use_count == 0 && !filter; }
};

class PinnedPools {
 public:
  explicit PinnedPools(const PinnedSizes& sizes) : sizes_(sizes), default_({}, sizes) {}

  // Of the pools whose filters accept the stream, the one routed to last; else the default.
  PinnedPool& pool_for(StreamId stream);

  // kUsage, in all of these: there is no such pool, or it is not in the state named.
  // Makes the pool if there is none, and holds it.
  Status begin_routing(PoolId pool, RouteFilter filter);
  Status end_routing(PoolId pool);  // does not let go of it
  Status release(PoolId pool);
  Result<int> use_count(PoolId pool) const;

  // Takes out what can go back to the host: free blocks of the default pool and of freeable ones.
  // Parts of the reserve segment cannot: those of a freeable pool become the default's.
  std::vector<PinnedBlock*> take_returnable();
  void forget_empty_pools();

  size_t cached_count() const;  // over all pools

 private:
  PinnedPool* find(PoolId pool) const;

  const PinnedSizes& sizes_;
  PinnedPool default_;
  std::vector<std::unique_ptr<PinnedPool>> pools_;  // in the order in which they were routed to
};

}  // namespace ashlar
