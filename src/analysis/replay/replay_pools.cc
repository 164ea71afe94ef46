// SPDX-License-Identifier: Apache-2.0
//
// Routes to at most one pool at a time, so that the cost of an allocation does not depend on the
// number of pools.
#include "analysis/replay/replay_pools.h"

#include <utility>

namespace ashlar {

Status ReplayPools::route_to(PoolId recorded) {
  const auto found = engine_ids_.find(recorded);
  const bool is_new = found == engine_ids_.end() && !recorded.is_default();
  if (!is_new && (recorded.is_default() ? PoolId() : found->second) == current_) return {};
  if (Status stopped = stop_routing(); !stopped.ok()) return stopped;
  if (recorded.is_default()) return {};
  const PoolId wanted = is_new ? new_id(recorded) : found->second;
  if (Status begun = engine_.begin_routing(wanted, [](StreamId) { return true; }); !begun.ok()) {
    return begun;
  }
  current_ = wanted;
  // begin_routing() retains the pool a second time. One reference is enough, so this reference is
  // released.
  return is_new ? Status() : engine_.release_pool(wanted);
}

Status ReplayPools::release(const std::vector<PoolId>& recorded) {
  const Result<std::vector<PoolId>> pools = retire(recorded);
  if (!pools.ok()) return pools.status();
  for (const PoolId pool : *pools) {
    if (Status trimmed = engine_.trim(pool); !trimmed.ok()) return trimmed;
  }
  return {};
}

Status ReplayPools::release_with_default(const std::vector<PoolId>& recorded) {
  const Result<std::vector<PoolId>> pools = retire(recorded);
  return pools.ok() ? engine_.trim() : pools.status();
}

PoolId ReplayPools::recorded_id(PoolId pool) const {
  const auto found = recorded_ids_.find(pool);
  return found == recorded_ids_.end() ? pool : found->second;
}

Result<std::vector<PoolId>> ReplayPools::retire(const std::vector<PoolId>& recorded) {
  std::vector<PoolId> pools;
  for (const PoolId each : recorded) {
    const auto found = engine_ids_.find(each);
    if (found == engine_ids_.end()) continue;
    const PoolId pool = found->second;
    engine_ids_.erase(found);
    Status ended = pool == current_ ? stop_routing() : Status();
    if (ended.ok()) ended = engine_.release_pool(pool);
    if (!ended.ok()) return ended;
    pools.push_back(pool);
  }
  return pools;
}

Status ReplayPools::stop_routing() {
  const PoolId pool = std::exchange(current_, {});
  return pool.is_default() ? Status() : engine_.end_routing(pool);
}

// Registers a new pool and returns its id in the engine: the recorded id, or an unused id if an
// earlier pool had the recorded id.
PoolId ReplayPools::new_id(PoolId recorded) {
  PoolId id = recorded;
  while (!recorded_ids_.try_emplace(id, recorded).second) id = {--last_capture_, 0};
  engine_ids_[recorded] = id;
  return id;
}

}  // namespace ashlar
