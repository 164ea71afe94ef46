// SPDX-License-Identifier: Apache-2.0
//
// At most one pool is routed to at a time: an allocation then costs the same, however many there
// are.
#include "analysis/replay/replay_pools.h"

#include <utility>

namespace ashlar {

Status ReplayPools::use(PoolId recorded) {
  const auto held = held_.find(recorded);
  const bool is_new = held == held_.end() && !recorded.is_default();
  if (!is_new && (recorded.is_default() ? PoolId() : held->second) == current_) return {};
  if (Status stopped = stop_routing(); !stopped.ok()) return stopped;
  if (recorded.is_default()) return {};
  const PoolId wanted = is_new ? new_name(recorded) : held->second;
  if (Status begun = engine_.begin_routing(wanted, [](StreamId) { return true; }); !begun.ok()) {
    return begun;
  }
  current_ = wanted;
  // Routing holds the pool once more, and once is enough.
  return is_new ? Status() : engine_.release_pool(wanted);
}

Status ReplayPools::give_back(const std::vector<PoolId>& recorded) {
  const Result<std::vector<PoolId>> pools = let_go(recorded);
  if (!pools.ok()) return pools.status();
  for (const PoolId pool : *pools) {
    if (Status trimmed = engine_.trim(pool); !trimmed.ok()) return trimmed;
  }
  return {};
}

Status ReplayPools::give_back_with_default(const std::vector<PoolId>& recorded) {
  const Result<std::vector<PoolId>> pools = let_go(recorded);
  return pools.ok() ? engine_.trim() : pools.status();
}

PoolId ReplayPools::recorded_of(PoolId pool) const {
  const auto found = recorded_.find(pool);
  return found == recorded_.end() ? pool : found->second;
}

Result<std::vector<PoolId>> ReplayPools::let_go(const std::vector<PoolId>& recorded) {
  std::vector<PoolId> pools;
  for (const PoolId each : recorded) {
    const auto held = held_.find(each);
    if (held == held_.end()) continue;
    const PoolId pool = held->second;
    held_.erase(held);
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

// The recorded name, if no pool has had it yet.
PoolId ReplayPools::new_name(PoolId recorded) {
  PoolId name = recorded;
  while (!recorded_.try_emplace(name, recorded).second) name = {--last_capture_, 0};
  held_[recorded] = name;
  return name;
}

}  // namespace ashlar
