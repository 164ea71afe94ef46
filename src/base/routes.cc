// SPDX-License-Identifier: Apache-2.0
//
// Counts the references of each pool, and finds the pool that a stream is routed to.
#include "base/routes.h"

#include <algorithm>
#include <utility>

#include "base/host_memory.h"
#include "base/text.h"

namespace ashlar {

Status no_such_pool(PoolId pool) {
  return Status::invalid_argument(text("there is no pool ", pool));
}

Status pool_has_memory_error(PoolId pool) {
  return Status::invalid_argument(
      text("pool ", pool, " has memory: set no_split before the first allocation from it"));
}

Status Routes::create(PoolId pool) {
  if (pool.is_default()) return Status::invalid_argument("the default pool cannot be created");
  if (!use_counts_.emplace(pool, 1).second) {
    return Status::invalid_argument(text("pool ", pool, " exists already"));
  }
  return {};
}

Status Routes::retain(PoolId pool) {
  const auto found = use_counts_.find(pool);
  if (found == use_counts_.end()) return no_such_pool(pool);
  if (is_freeable(pool)) return Status::invalid_argument(text("pool ", pool, " was released"));
  ++found->second;
  return {};
}

Status Routes::release(PoolId pool) {
  const auto found = use_counts_.find(pool);
  if (found == use_counts_.end()) return no_such_pool(pool);
  if (found->second == 0) {
    return Status::invalid_argument(text("pool ", pool, " was released more often than retained"));
  }
  --found->second;
  return {};
}

Result<int> Routes::use_count(PoolId pool) const {
  const auto found = use_counts_.find(pool);
  if (found == use_counts_.end()) return no_such_pool(pool);
  return found->second;
}

bool Routes::is_freeable(PoolId pool) const {
  const auto found = use_counts_.find(pool);
  return found != use_counts_.end() && found->second == 0 && !is_routed_to(pool);
}

Status Routes::begin(PoolId pool, RouteFilter&& filter) {
  if (pool.is_default()) return Status::invalid_argument("the default pool needs no routing");
  if (!filter) return Status::invalid_argument("routing needs a filter");
  if (is_routed_to(pool)) {
    return Status::invalid_argument(text("allocations are routed to pool ", pool, " already"));
  }
  reserve_amortized(routes_, routes_.size() + 1);  // before the first change
  if (Status retained = has(pool) ? retain(pool) : create(pool); !retained.ok()) return retained;
  routes_.push_back({pool, std::move(filter)});
  return {};
}

Result<RouteFilter> Routes::end(PoolId pool) {
  const auto same = [&](const Route& route) { return route.pool == pool; };
  const auto found = std::find_if(routes_.begin(), routes_.end(), same);
  if (found == routes_.end()) {
    return Status::invalid_argument(text("allocations are not routed to pool ", pool));
  }
  RouteFilter filter = std::move(found->filter);
  routes_.erase(found);
  return filter;
}

PoolId Routes::pool_id_for(StreamId stream) const {
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->filter(stream)) return route->pool;
  }
  return {};
}

bool Routes::is_routed_to(PoolId pool) const {
  const auto same = [&](const Route& route) { return route.pool == pool; };
  return std::any_of(routes_.begin(), routes_.end(), same);
}

}  // namespace ashlar
