// SPDX-License-Identifier: Apache-2.0
//
// What is too small to be seen. Nothing here knows a screen: it has fewer pixels than this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ashlar::view {

inline constexpr size_t kPixels = 8'000;

// Has neighbours merged that are narrower than a pixel, and then than ever wider ones, until
// `count()` of them are at most `most`, or no wider ones help.
template <typename Count, typename MergeBelow>
void merge_until(size_t most, uint64_t total_bytes, const Count& count, const MergeBelow& merge) {
  uint64_t least_bytes = total_bytes / kPixels;
  while (count() > most) {
    merge(least_bytes);
    if (least_bytes >= total_bytes) return;
    least_bytes =
        least_bytes > total_bytes / 2 ? total_bytes : std::max<uint64_t>(2 * least_bytes, 1);
  }
}

}  // namespace ashlar::view
