// SPDX-License-Identifier: Apache-2.0
//
// Measures up to which size the one-shot all-reduce is faster than the two-shot all-reduce, on the
// ranks that will use them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "symm/collectives/collective_context.h"

namespace ashlar::symm {

struct Thresholds {
  // All-reduces up to this size use the one-shot algorithm.
  size_t one_shot_bytes = size_t{64} * 1024;

  struct Measurement {
    size_t bytes = 0;
    double one_shot_us = 0;  // the time per all-reduce, mean over all ranks
    double two_shot_us = 0;
  };
  std::vector<Measurement> measurements{};  // in order of increasing size

  std::string to_string() const;  // a table and the resulting threshold
};

// Measures both algorithms. Collective. Each rank takes its best time of `rounds` runs per size;
// all ranks get the mean of these times over the ranks. Overwrites up to 4 MiB of the range.
// Returns kInvalidArgument if the range has less than 4 KiB.
Result<Thresholds> measure_thresholds(const CollectiveContext& context, const SymmetricRange& range,
                                      int rounds, const Limits& limits);

}  // namespace ashlar::symm
