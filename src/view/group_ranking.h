// SPDX-License-Identifier: Apache-2.0
//
// Ranks the groups of a grouping (by stack, stream, pool or category) and selects the groups that
// the page shows individually. The selection is the same for the whole document. Immutable and
// therefore thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "view/interval_index.h"

namespace ashlar::view {

inline constexpr size_t kMaxGroups = 48;

class GroupRanking {
 public:
  GroupRanking() = default;
  // `group_of` and `bytes` are indexed like `intervals`. Groups are ranked by bytes at the
  // moment `peak`, then by bytes over the whole run.
  struct Members {
    const IntervalIndex& intervals;
    const std::vector<uint64_t>& bytes;
    uint32_t entry_count = 0;
    uint32_t peak = 0;
  };
  GroupRanking(const Members& members, const std::vector<uint32_t>& group_of);

  // The groups that are shown individually, largest first.
  const std::vector<uint32_t>& shown() const { return shown_; }
  // Returns whether there are groups outside of shown(), which share one row below those groups.
  bool has_others() const { return has_others_; }
  // For each allocation, the index of its group in shown(), or shown().size() for other groups.
  const std::vector<uint8_t>& row_of() const { return row_of_; }

 private:
  std::vector<uint32_t> shown_{};
  std::vector<uint8_t> row_of_{};
  bool has_others_ = false;
};

}  // namespace ashlar::view
