// SPDX-License-Identifier: Apache-2.0
//
// Greedily selects pieces that do not exceed the missing bytes. If these pieces do not suffice,
// adds the smallest skipped piece.
#include "engine/trim_selection.h"

#include <algorithm>

namespace ashlar {

std::vector<size_t> select_for_trim(const std::vector<size_t>& sizes, size_t wanted_bytes) {
  std::vector<size_t> chosen;
  size_t missing = wanted_bytes;
  size_t spare = sizes.size();  // the smallest piece that exceeded `missing` when visited
  for (size_t i = 0; i < sizes.size() && missing > 0; ++i) {
    if (sizes[i] > missing) {
      if (spare == sizes.size() || sizes[i] < sizes[spare]) spare = i;
      continue;
    }
    chosen.push_back(i);
    missing -= sizes[i];
  }
  if (missing == 0 || spare == sizes.size()) return chosen;
  // The spare piece covers what is missing and may make earlier choices unnecessary.
  size_t excess = sizes[spare] - missing;
  std::erase_if(chosen, [&](size_t i) {
    const bool is_unnecessary = sizes[i] <= excess;
    if (is_unnecessary) excess -= sizes[i];
    return is_unnecessary;
  });
  chosen.push_back(spare);
  return chosen;
}

}  // namespace ashlar
