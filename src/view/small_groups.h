// SPDX-License-Identifier: Apache-2.0
//
// Sums the allocations that a tile does not show individually by stack and by category, so that the
// page can draw their total in colours. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "view/columns.h"
#include "view/document.h"

namespace ashlar::view {

inline constexpr size_t kMaxSmallStacks = 15;  // stacks of one tile that get a colour of their own

// An allocation that is visible in the columns [begin, end) of a tile.
struct ShownAllocation {
  uint32_t rank = 0;
  uint32_t begin = 0;
  uint32_t end = 0;  // the number of columns if the allocation outlives the tile
};

// Adds the columns `small_stack` and `stack_bytes`, with one row for each of the largest stacks
// and, if there are more stacks, one row for all others, and `small_category` and `category_bytes`,
// with one row for each category that occurs.
void add_small_groups(const Document& document, const std::vector<ShownAllocation>& small,
                      uint32_t column_count, Columns& response);

}  // namespace ashlar::view
