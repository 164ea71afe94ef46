// SPDX-License-Identifier: Apache-2.0
//
// Creates, finds and destroys pools.
#include "engine/paged/pool_table.h"

#include <utility>

#include "base/text.h"

namespace ashlar::paged {

Status pool_paused_error(const PagedPool& pool) {
  return Status::invalid_argument(
      text("the pool is paused: resume \"", pool.options.tag, "\" before allocating from it"));
}

PagedPool* PoolTable::find(PoolId pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() ? nullptr : found->second.get();
}

Result<std::vector<PagedPool*>> PoolTable::find_tagged(std::string_view tag) const {
  if (tag.empty()) {
    return Status::invalid_argument("an empty tag names no pool (expected a PoolOptions::tag)");
  }
  std::vector<PagedPool*> pools;
  for (const auto& [id, pool] : pools_) {
    if (pool->options.tag == tag) pools.push_back(pool.get());
  }
  if (pools.empty()) return Status::invalid_argument(text("no pool has the tag \"", tag, "\""));
  return pools;
}

std::vector<PoolId> PoolTable::trimmable_pools() const {
  std::vector<PoolId> ids;
  for (const auto& [id, pool] : pools_) {
    if (!id.is_default() && routes_.is_freeable(id)) ids.push_back(id);
  }
  if (streams_.capture_count() == 0) ids.push_back({});
  return ids;
}

Status PoolTable::create(PoolId pool, PoolOptions options) {
  Map::node_type made = make_pool(pool, std::move(options));
  if (Status created = routes_.create(pool); !created.ok()) return created;
  pools_.insert(std::move(made));
  return {};
}

PoolTable::Map::node_type PoolTable::make_pool(PoolId pool, PoolOptions options) const {
  const bool is_plain = are_all_plain_ || options.source != nullptr || options.no_split;
  Map single;
  single.emplace(pool, std::make_unique<PagedPool>(pool, std::move(options), is_plain));
  return single.extract(single.begin());
}

bool PoolTable::erase_if_unused(PoolId id) noexcept {
  const auto found = pools_.find(id);
  if (found == pools_.end() || id.is_default() || !routes_.is_freeable(id)) return false;
  PagedPool& pool = *found->second;
  if (pool.has_memory() || pool.in_flight_count != 0 || pool.is_changing) return false;
  const std::unique_ptr<PagedPool> erased = std::move(found->second);
  pools_.erase(found);
  routes_.erase(id);
  streams_.recycle_events_of(*erased);
  peaks_.remove_arenas(*erased);
  return true;
}

Status PoolTable::begin_routing(PoolId pool, RouteFilter&& filter) {
  Map::node_type made = find(pool) == nullptr ? make_pool(pool, {}) : Map::node_type();
  if (Status begun = routes_.begin(pool, std::move(filter)); !begun.ok()) return begun;
  if (!made.empty()) pools_.insert(std::move(made));
  ++route_count_;
  return {};
}

Result<RouteFilter> PoolTable::end_routing(PoolId pool) {
  Result<RouteFilter> filter = routes_.end(pool);
  if (filter.ok()) --route_count_;
  return filter;
}

}  // namespace ashlar::paged
