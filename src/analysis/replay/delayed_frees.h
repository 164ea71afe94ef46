// SPDX-License-Identifier: Apache-2.0
//
// Replays frees that were pending for a while because another stream used the block. A simulated
// stream with blocked work stands in for the other stream. Not thread safe.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ashlar/sim.h"
#include "ashlar/status.h"
#include "engine/engine.h"

namespace ashlar {

class DelayedFrees {
 public:
  // REQUIRES: `machine` and `engine` outlive this object, and the engine uses a device of the
  // machine.
  DelayedFrees(sim::Machine& machine, Engine& engine) : machine_(machine), engine_(engine) {}

  // Frees the block of an allocation. The free stays pending until complete(allocation).
  Status free(uint32_t allocation, Block* block);
  // Completes the free. Does nothing if the free is not pending.
  Status complete(uint32_t allocation);

 private:
  sim::Machine& machine_;
  Engine& engine_;
  std::unordered_map<uint32_t, StreamId> users_;  // the stream that blocks each free
  std::vector<StreamId> spare_streams_;           // idle streams, for reuse
};

}  // namespace ashlar
