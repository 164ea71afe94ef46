// SPDX-License-Identifier: Apache-2.0
//
// The statistic of free memory that cannot be released, because it lies in partly used extents or
// segments. Hits do not maintain the statistic. A scan computes it when statistics are read, so its
// peak and totals reflect only the values at those times.
#pragma once

#include <array>

#include "engine/paged/pool/view.h"

namespace ashlar::paged {

// The number and the total size of the free parts of partly used extents and segments.
struct InactiveSplit {
  int64_t count = 0;
  int64_t bytes = 0;
};
using InactiveSplits = std::array<InactiveSplit, 2>;  // indexed by `is_small`

// Adds the free parts of a view. REQUIRES: the lock of the view's arena.
void add_inactive(const View& view, InactiveSplits& sums);

inline void add_inactive(const InactiveSplits& more, InactiveSplits& sums) {
  for (size_t kind = 0; kind < sums.size(); ++kind) {
    sums[kind].count += more[kind].count;
    sums[kind].bytes += more[kind].bytes;
  }
}
inline void subtract_inactive(const InactiveSplits& less, InactiveSplits& sums) {
  for (size_t kind = 0; kind < sums.size(); ++kind) {
    sums[kind].count -= less[kind].count;
    sums[kind].bytes -= less[kind].bytes;
  }
}

}  // namespace ashlar::paged
