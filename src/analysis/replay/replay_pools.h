// SPDX-License-Identifier: Apache-2.0
//
// The pools of a replay. Routes allocations to the pools that they had in the recording. Not thread
// safe.
#pragma once

#include <map>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/types.h"
#include "engine/engine.h"

namespace ashlar {

// Pools are identified by their recorded ids and retained until they are released. A pool that is
// used again after its release becomes a new pool with a new id in the engine, because the old pool
// may still have live blocks.
class ReplayPools {
 public:
  explicit ReplayPools(Engine& engine) : engine_(engine) {}

  // Routes the following allocations to a pool, which is created on first use.
  Status route_to(PoolId recorded);
  // Returns the engine's id of the pool that allocations are routed to.
  PoolId current() const { return current_; }

  // Releases pools and trims them. Pools that were never used are ignored.
  Status release(const std::vector<PoolId>& recorded);
  // Like release, and also trims the default pool.
  Status release_with_default(const std::vector<PoolId>& recorded);

  // Returns the recorded id of a pool of the engine.
  PoolId recorded_id(PoolId pool) const;

 private:
  Result<std::vector<PoolId>> retire(const std::vector<PoolId>& recorded);
  Status stop_routing();
  PoolId new_id(PoolId recorded);

  Engine& engine_;
  PoolId current_;
  std::map<PoolId, PoolId> engine_ids_;  // the engine's ids of retained pools, by recorded id
  // The recorded ids of all pools, including released pools, keyed by the engine's id.
  std::map<PoolId, PoolId> recorded_ids_;
  uint64_t last_capture_ = 0;  // counts down, for ids that recordings are unlikely to contain
};

}  // namespace ashlar
