// SPDX-License-Identifier: Apache-2.0
//
// Selects the pieces of cached memory that a partial trim returns to the device. Shared by all
// engines; the engine orders the pieces by preference.
#pragma once

#include <cstddef>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/trace.h"

namespace ashlar {

// The goal of a partial trim, and whether it may wait.
struct TrimTarget {
  size_t reserved_bytes = 0;  // the most that may stay reserved
  TrimWait wait = TrimWait::kNever;
  StackId stack{};  // the caller's stack, if history records stacks
};

// Given piece sizes in order of preference, returns the indexes of pieces that add up to at least
// `wanted_bytes`, or all indexes if the pieces do not suffice. Omits pieces that a larger selected
// piece makes unnecessary.
std::vector<size_t> select_for_trim(const std::vector<size_t>& sizes, size_t wanted_bytes);

}  // namespace ashlar
