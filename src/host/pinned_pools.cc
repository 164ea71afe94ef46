// SPDX-License-Identifier: Apache-2.0
//
// Routes requests to pools, and collects the blocks of released pools.
#include "host/pinned_pools.h"

#include "base/host_memory.h"

namespace ashlar {

PinnedPool& PinnedPools::pool_for(StreamId stream) {
  const PoolId id = routes_.pool_id_for(stream);
  return id.is_default() ? default_ : *pools_.at(id);
}

Status PinnedPools::begin_routing(PoolId pool, RouteFilter&& filter) {
  const bool is_new = !pools_.contains(pool);
  Status begun = routes_.begin(pool, std::move(filter));
  if (!begun.ok() || !is_new) return begun;
  // The filter is only assigned to. NOLINTNEXTLINE(bugprone-use-after-move)
  ScopeGuard undo([&] {
    filter = *routes_.end(pool);
    routes_.erase(pool);
  });
  pools_.emplace(pool, std::make_unique<PinnedPool>(pool, size_policy_));
  undo.dismiss();
  return {};
}

void PinnedPools::take_releasable(PinnedBlockList& taken) {
  default_.cache.take_releasable(taken);
  for (const auto& [id, pool] : pools_) {
    if (!routes_.is_freeable(id)) continue;
    pool->cache.take_releasable(taken);
    PinnedBlockList reserved = pool->cache.take_all();
    while (PinnedBlock* block = reserved.pop_front()) {
      block->pool = &default_;
      --pool->block_count;
      ++default_.block_count;
      default_.cache.insert(block);
    }
  }
}

void PinnedPools::erase_empty_pools() {
  std::erase_if(pools_, [&](const auto& entry) {
    const auto& [id, pool] = entry;
    const bool is_unused =
        routes_.is_freeable(id) && pool->block_count == 0 && pool->in_flight_count == 0;
    if (is_unused) routes_.erase(id);
    return is_unused;
  });
}

size_t PinnedPools::cached_count() const {
  size_t count = default_.cache.block_count();
  for (const auto& [id, pool] : pools_) count += pool->cache.block_count();
  return count;
}

}  // namespace ashlar
