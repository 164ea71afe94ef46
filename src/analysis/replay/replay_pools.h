// SPDX-License-Identifier: Apache-2.0
//
// The pools of a replay: allocations go where they went in the recording. Not thread safe.
#pragma once

#include <map>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/types.h"
#include "engine/engine.h"

namespace ashlar {

// Pools are named as recorded, and held until they are let go. One that is used after that is
// another pool, of another name in the engine, since the old one may still have live blocks.
class ReplayPools {
 public:
  explicit ReplayPools(Engine& engine) : engine_(engine) {}

  // Sends the next allocations to a pool, which is made when it is first used.
  Status use(PoolId recorded);

  // Lets go of pools, those that were never used left out, and gives their cached memory back.
  Status give_back(const std::vector<PoolId>& recorded);
  // The same, with all that is cached in the default pool.
  Status give_back_with_default(const std::vector<PoolId>& recorded);

  // The recorded name of a pool of the engine.
  PoolId recorded_of(PoolId pool) const;

 private:
  Result<std::vector<PoolId>> let_go(const std::vector<PoolId>& recorded);
  Status stop_routing();
  PoolId new_name(PoolId recorded);

  Engine& engine_;
  PoolId current_;                     // of the engine, that allocations are routed to
  std::map<PoolId, PoolId> held_;      // the engine's name, by the recorded one
  std::map<PoolId, PoolId> recorded_;  // the recorded name, by the engine's; of all there ever were
  uint64_t last_capture_ = 0;          // downwards: a name that no recording is likely to have
};

}  // namespace ashlar
