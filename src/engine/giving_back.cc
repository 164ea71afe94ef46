// SPDX-License-Identifier: Apache-2.0
//
// Passing over what is larger than needed, and taking the smallest of those at the end.
#include "engine/giving_back.h"

#include <algorithm>

namespace ashlar {

std::vector<size_t> choose_pieces(const std::vector<size_t>& sizes, size_t wanted_bytes) {
  std::vector<size_t> chosen;
  size_t missing = wanted_bytes;
  size_t spare = sizes.size();  // the smallest that alone is more than what was missing then
  for (size_t i = 0; i < sizes.size() && missing > 0; ++i) {
    if (sizes[i] > missing) {
      if (spare == sizes.size() || sizes[i] < sizes[spare]) spare = i;
      continue;
    }
    chosen.push_back(i);
    missing -= sizes[i];
  }
  if (missing == 0 || spare == sizes.size()) return chosen;
  // It covers what is missing, and may cover what was chosen for it, too.
  size_t excess = sizes[spare] - missing;
  std::erase_if(chosen, [&](size_t i) {
    const bool is_needless = sizes[i] <= excess;
    if (is_needless) excess -= sizes[i];
    return is_needless;
  });
  chosen.push_back(spare);
  return chosen;
}

}  // namespace ashlar
