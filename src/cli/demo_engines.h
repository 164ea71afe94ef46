// SPDX-License-Identifier: Apache-2.0
//
// One program under several settings of an allocator, for `ashlar demo`: what would it have
// reserved under each? The allocators are the real ones; the device below them keeps books only.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/timeline.h"
#include "ashlar/sim.h"
#include "ashlar/stats.h"
#include "ashlar/status.h"

namespace ashlar {

// The program trains a network on images of all sizes: each step keeps what its layers put out
// until it comes back through them, and no two steps need the same sizes. Every fourth step it is
// tried on many images at once, on another stream.
struct TrainingLoad {
  size_t step_count = 16;
  size_t layer_count = 24;
  uint64_t seed = 7;  // of the sizes
};

// What came of the program under one setting.
struct EngineRun {
  std::string name{};   // for a legend
  std::string title{};  // for a table
  Timeline timeline{};  // after each layer
  AllocatorStats stats{};
  sim::CallCosts driver{};
  bool gave_all_back = false;
};

// PyTorch's defaults, PyTorch's expandable segments, and the paged engine, in this order. Throws
// what Allocator throws.
Result<std::vector<EngineRun>> run_under_engines(const TrainingLoad& load);

}  // namespace ashlar
