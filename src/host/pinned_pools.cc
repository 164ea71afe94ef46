// Routing to pools, holding them, and letting them go.
#include "host/pinned_pools.h"

#include <algorithm>

#include "base/text.h"

namespace ashlar {
namespace {

std::string to_text(PoolId pool) { return text("pool {", pool.capture, ", ", pool.user, "}"); }

Status no_such_pool(PoolId pool) {
  return Status::usage(text("there is no ", to_text(pool), " of pinned memory"));
}

}  // namespace

PinnedPool& PinnedPools::pool_for(StreamId stream) {
  for (auto pool = pools_.rbegin(); pool != pools_.rend(); ++pool) {
    if ((*pool)->filter && (*pool)->filter(stream)) return **pool;
  }
  return default_;
}

Status PinnedPools::begin_routing(PoolId pool, RouteFilter filter) {
  if (pool.is_default()) return Status::usage("the default pool needs no routing");
  if (!filter) return Status::usage("there is no filter to route by");
  PinnedPool* found = find(pool);
  if (found == nullptr) {
    pools_.push_back(std::make_unique<PinnedPool>(pool, sizes_));
    found = pools_.back().get();
  } else if (found->filter) {
    return Status::usage(text("allocations are routed to ", to_text(pool), " already"));
  } else if (found->is_freeable()) {
    return Status::usage(text(to_text(pool), " was let go"));
  }
  ++found->use_count;
  found->filter = std::move(filter);
  const auto place = std::find_if(pools_.begin(), pools_.end(),
                                  [&](const auto& each) { return each.get() == found; });
  std::rotate(place, place + 1, pools_.end());  // routed to last
  return {};
}

Status PinnedPools::end_routing(PoolId pool) {
  PinnedPool* found = find(pool);
  if (found == nullptr || !found->filter) {
    return Status::usage(text("allocations are not routed to ", to_text(pool)));
  }
  found->filter = nullptr;
  return {};
}

Status PinnedPools::release(PoolId pool) {
  PinnedPool* found = find(pool);
  if (found == nullptr) return no_such_pool(pool);
  if (found->use_count == 0) {
    return Status::usage(text(to_text(pool), " was let go more often than held"));
  }
  --found->use_count;
  return {};
}

Result<int> PinnedPools::use_count(PoolId pool) const {
  const PinnedPool* found = find(pool);
  if (found == nullptr) return no_such_pool(pool);
  return found->use_count;
}

PinnedPool* PinnedPools::find(PoolId pool) const {
  for (const auto& each : pools_) {
    if (each->id == pool) return each.get();
  }
  return nullptr;
}

// --- giving back --------------------------------------------------------------------------------

std::vector<PinnedBlock*> PinnedPools::take_returnable() {
  std::vector<PinnedBlock*> taken = default_.cache.take_returnable();
  for (const auto& pool : pools_) {
    if (!pool->is_freeable()) continue;
    const std::vector<PinnedBlock*> returnable = pool->cache.take_returnable();
    taken.insert(taken.end(), returnable.begin(), returnable.end());
    for (PinnedBlock* block : pool->cache.take_all()) {
      block->pool = &default_;
      --pool->block_count;
      ++default_.block_count;
      default_.cache.insert(block);
    }
  }
  return taken;
}

void PinnedPools::forget_empty_pools() {
  std::erase_if(pools_, [](const auto& pool) {
    return pool->is_freeable() && pool->block_count == 0 && pool->search_count == 0;
  });
}

size_t PinnedPools::cached_count() const {
  size_t count = default_.cache.block_count();
  for (const auto& pool : pools_) count += pool->cache.block_count();
  return count;
}

}  // namespace ashlar
