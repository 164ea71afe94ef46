// SPDX-License-Identifier: Apache-2.0
//
// Chooses the all-reduce algorithm by size, measured by the ranks that will use it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "symm/collectives/collective_context.h"

namespace ashlar::symm {

struct Thresholds {
  // All-reduces up to this size use the one-shot algorithm.
  size_t one_shot_bytes = size_t{64} * 1024;

  struct Row {
    size_t bytes = 0;
    double one_shot_us = 0;  // per all-reduce, mean over all ranks
    double two_shot_us = 0;
  };
  std::vector<Row> rows{};  // measurements, in order of increasing size

  std::string to_string() const;  // a table and the resulting threshold
};

// Measures both algorithms. Collective. All ranks get the same figures, the best of `rounds` per
// size. Overwrites up to 4 MiB of the range. REQUIRES: at least 4 KiB.
Result<Thresholds> measure_thresholds(const CollectiveContext& context, const SymmetricRange& range,
                                      int rounds, const Limits& limits);

}  // namespace ashlar::symm
