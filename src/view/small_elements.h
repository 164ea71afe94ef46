// SPDX-License-Identifier: Apache-2.0
//
// Merging of elements that are too small to be visible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ashlar::view {

inline constexpr size_t kPixels = 8'000;  // more than any screen has

// Calls merge(min_bytes), which merges adjacent elements below that size, with a minimum of one
// pixel and then repeatedly doubled, until count() is at most `max_count` or the minimum reaches
// `total_bytes`.
template <typename Count, typename MergeBelow>
void merge_until(size_t max_count, uint64_t total_bytes, const Count& count,
                 const MergeBelow& merge) {
  uint64_t min_bytes = total_bytes / kPixels;
  while (count() > max_count) {
    merge(min_bytes);
    if (min_bytes >= total_bytes) return;
    min_bytes = min_bytes > total_bytes / 2 ? total_bytes : std::max<uint64_t>(2 * min_bytes, 1);
  }
}

}  // namespace ashlar::view
