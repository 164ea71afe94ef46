// SPDX-License-Identifier: Apache-2.0
//
// Iterations, phases and categories of a recording, computed once per device.
#pragma once

#include <vector>

#include "analysis/recording.h"
#include "analysis/training/categories.h"
#include "analysis/training/iterations.h"
#include "analysis/training/stack_traits.h"

namespace ashlar {

struct TrainingAnalysis {
  StackTraitsTable traits;
  Iterations iterations;
  Categories categories;
  std::vector<IterationPeaks> peaks{};  // of each iteration
};

// Returns the analysis, which is computed on first use and cached by the recording. Thread safe.
const TrainingAnalysis& training_of(const DeviceRecording& recording);

}  // namespace ashlar
