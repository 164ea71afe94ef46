// SPDX-License-Identifier: Apache-2.0
//
// One program run with several allocators, for `ashlar demo`. The allocators are real; the device
// is simulated, without backing memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/timeline.h"
#include "ashlar/sim.h"
#include "ashlar/stats.h"
#include "ashlar/status.h"

namespace ashlar {

// A training loop on images of varying sizes. Each step keeps the layers' outputs until the
// backward pass; sizes differ from step to step. After every fourth step a larger batch is
// evaluated on a second stream.
struct TrainingLoad {
  size_t step_count = 16;
  size_t layer_count = 24;
  uint64_t seed = 7;  // determines the sizes of the images
};

// The result with one allocator.
struct EngineRun {
  std::string name{};   // name for a legend
  std::string title{};  // longer name for a table
  Timeline timeline{};  // a point after each layer and each pass
  AllocatorStats stats{};
  sim::CallCosts driver{};
  bool returned_all_memory = false;
};

// Runs PyTorch's defaults, PyTorch's expandable segments, and the paged engine, in this order.
// Throws if a request fails.
Result<std::vector<EngineRun>> run_with_engines(const TrainingLoad& load);

}  // namespace ashlar
