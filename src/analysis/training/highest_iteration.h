// SPDX-License-Identifier: Apache-2.0
//
// Finds the iteration with the highest peak, and which category and stack account for most of the
// difference from the iteration with the median peak. Pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "analysis/recording.h"
#include "analysis/training/categories.h"
#include "analysis/training/iterations.h"

namespace ashlar {

// Compares two iterations at their peaks: the highest and the median.
struct HighestIteration {
  uint32_t iteration = 0;         // index into Iterations::all
  uint32_t median_iteration = 0;  // index into Iterations::all
  Phase phase = Phase::kOther;    // in which the highest peak occurs
  size_t difference_bytes = 0;    // between the two peaks
  // The category, and independently of it the stack, whose bytes differ most. Unset if none has
  // more bytes at the highest peak.
  std::optional<Category> category{};
  size_t category_difference_bytes = 0;
  std::optional<uint32_t> stack{};  // number in Recording::stacks()
  size_t stack_difference_bytes = 0;
};

// Returns nothing if the recording has no iterations.
std::optional<HighestIteration> find_highest_iteration(const DeviceRecording& recording);

}  // namespace ashlar
