// SPDX-License-Identifier: Apache-2.0
//
// Frees of a replay that took their time: some other stream was still using the block. We play that
// stream. Not thread safe.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ashlar/sim.h"
#include "ashlar/status.h"
#include "engine/engine.h"

namespace ashlar {

class HeldFrees {
 public:
  // Both outlive it; the engine is that of the machine's device.
  HeldFrees(sim::Machine& machine, Engine& engine) : machine_(machine), engine_(engine) {}

  // Frees the block of an allocation, which stays pending until it is let go.
  Status free(uint32_t allocation, Block* block);
  // Nothing happens if it is not held.
  Status let_go(uint32_t allocation);

 private:
  sim::Machine& machine_;
  Engine& engine_;
  std::unordered_map<uint32_t, StreamId> users_;  // by allocation: the stream that uses it
  std::vector<StreamId> spare_streams_;           // that use nothing now
};

}  // namespace ashlar
