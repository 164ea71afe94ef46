// SPDX-License-Identifier: Apache-2.0
//
// Creates, finds and destroys pools.
#include "engine/classic/pool_table.h"

#include "base/host_memory.h"

namespace ashlar::classic {

PoolTable::PoolTable(StatsRecorder& stats, ReturnQueue& returns, SourceConfig source)
    : stats_(stats),
      returns_(returns),
      source_(std::move(source)),
      large_(false, nullptr, stats.find_or_add_pool_usage(PoolId{})),
      small_(true, nullptr, stats.find_or_add_pool_usage(PoolId{})) {}

FreePool& PoolTable::pool_for(size_t block_bytes, StreamId stream) {
  const bool is_small = SizePolicy::is_small(block_bytes);
  const PoolId id = routes_.pool_id_for(stream);
  if (id.is_default()) return is_small ? small_ : large_;
  PrivatePool& pool = *pools_.at(id);
  return is_small ? pool.small : pool.large;
}

PrivatePool* PoolTable::find(PoolId pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() ? nullptr : found->second.get();
}

Status PoolTable::create(PoolId pool, PoolOptions options) {
  Status created = routes_.create(pool);
  if (!created.ok()) return created;
  ScopeGuard undo([&] { routes_.erase(pool); });
  add(pool, std::move(options));
  undo.dismiss();
  return {};
}

void PoolTable::add(PoolId pool, PoolOptions options) {
  if (options.source == nullptr && source_.serves_private_pools) options.source = source_.source;
  const bool has_source = options.source != nullptr;
  if (has_source) returns_.reserve();
  ScopeGuard undo([&] {
    if (has_source) returns_.cancel_reservation();
    stats_.erase_pool(pool);
  });
  pools_.emplace(pool, std::make_unique<PrivatePool>(pool, std::move(options),
                                                     stats_.find_or_add_pool_usage(pool)));
  undo.dismiss();
}

Status PoolTable::begin_routing(PoolId pool, RouteFilter&& filter) {
  const bool is_new = find(pool) == nullptr;
  Status begun = routes_.begin(pool, std::move(filter));
  if (!begun.ok() || !is_new) return begun;
  // The filter is only assigned to. NOLINTNEXTLINE(bugprone-use-after-move)
  ScopeGuard undo([&] {
    filter = *routes_.end(pool);
    routes_.erase(pool);
  });
  add(pool, {});
  undo.dismiss();
  return {};
}

std::vector<PrivatePool*> PoolTable::private_pools() const {
  std::vector<PrivatePool*> pools;
  for (const auto& [id, pool] : pools_) pools.push_back(pool.get());
  return pools;
}

std::vector<PrivatePool*> PoolTable::freeable_pools() const {
  std::vector<PrivatePool*> pools = private_pools();
  std::erase_if(pools, [this](const PrivatePool* pool) { return !is_freeable(pool->id); });
  return pools;
}

std::vector<const FreePool*> PoolTable::all_free_pools() const {
  std::vector<const FreePool*> all = {&large_, &small_};
  for (const auto& [id, pool] : pools_) all.insert(all.end(), {&pool->large, &pool->small});
  return all;
}

void PoolTable::erase_empty(PoolId pool) {
  for (PrivatePool* candidate : freeable_pools()) {
    const bool is_selected = pool.is_default() || candidate->id == pool;
    const bool is_in_use = candidate->segment_count != 0 || candidate->in_flight_count != 0;
    if (!is_selected || is_in_use) continue;
    const PoolId id = candidate->id;
    if (candidate->has_custom_source()) returns_.add(candidate->options.source);
    stats_.erase_pool(id);
    routes_.erase(id);
    pools_.erase(id);
  }
}

}  // namespace ashlar::classic
