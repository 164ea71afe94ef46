// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm for which size, measured on the machine at hand by the ranks that will use it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "symm/collectives/team.h"

namespace ashlar::symm {

struct Thresholds {
  // All-reduces of up to so many bytes are done in one step.
  size_t one_shot_bytes = size_t{64} * 1024;

  struct Row {
    size_t bytes = 0;
    double one_shot_us = 0;  // for one all-reduce, the mean of all ranks
    double two_shot_us = 0;
  };
  std::vector<Row> rows{};  // what was measured, from small to large

  std::string to_string() const;  // a table, and what follows from it
};

// Collective. All ranks get the same figures: of every size the best of `rounds`. Overwrites the
// piece, of which as many bytes are used as there are, up to 4 MiB; it must have 4 KiB.
Result<Thresholds> measure_thresholds(const Team& team, const Piece& piece, int rounds,
                                      const Limits& limits);

}  // namespace ashlar::symm
