// SPDX-License-Identifier: Apache-2.0
//
// Implements the optimal string alignment distance, which counts two swapped adjacent letters as
// one edit. Names are short and few, so the quadratic algorithm is cheap.
#include "config/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ashlar {
namespace {

size_t edit_distance(std::string_view from, std::string_view to) {
  const size_t columns = to.size() + 1;
  std::vector<size_t> table((from.size() + 1) * columns);
  for (size_t row = 0; row <= from.size(); ++row) table[row * columns] = row;
  for (size_t column = 0; column < columns; ++column) table[column] = column;

  for (size_t row = 1; row <= from.size(); ++row) {
    for (size_t column = 1; column < columns; ++column) {
      const size_t* above = &table[(row - 1) * columns + column];
      size_t& here = table[row * columns + column];
      const size_t replaced = above[-1] + (from[row - 1] == to[column - 1] ? 0 : 1);
      here = std::min({replaced, above[0] + 1, (&here)[-1] + 1});
      const bool swapped = row > 1 && column > 1 && from[row - 1] == to[column - 2] &&
                           from[row - 2] == to[column - 1];
      if (swapped) here = std::min(here, table[(row - 2) * columns + column - 2] + 1);
    }
  }
  return table.back();
}

}  // namespace

std::optional<std::string_view> nearest_name(std::string_view wanted,
                                             std::span<const std::string_view> known) {
  // Allows 2 edits, or a third of the letters for names of at least 9 letters.
  size_t best_distance = std::max<size_t>(2, wanted.size() / 3) + 1;
  std::optional<std::string_view> best;
  for (std::string_view name : known) {
    // Each edit changes the length by at most 1. Names from files may be long.
    const size_t length_difference =
        std::max(wanted.size(), name.size()) - std::min(wanted.size(), name.size());
    if (length_difference >= best_distance) continue;
    const size_t distance = edit_distance(wanted, name);
    // A name that shares no letter with the input is never suggested.
    if (distance >= best_distance || distance >= std::max(wanted.size(), name.size())) continue;
    best_distance = distance;
    best = name;
  }
  return best;
}

}  // namespace ashlar
