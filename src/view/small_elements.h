// SPDX-License-Identifier: Apache-2.0
//
// Merging of elements that are too small to be visible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ashlar::view {

inline constexpr size_t kMaxScreenWidthPixels = 8'000;  // wider than any screen

// Calls merge(min_bytes), which merges adjacent elements that are smaller than `min_bytes`, until
// count() is at most `max_count` or `min_bytes` reaches `total_bytes`. `min_bytes` starts at the
// size of one pixel and doubles with each call.
template <typename Count, typename MergeBelow>
void merge_until(size_t max_count, uint64_t total_bytes, const Count& count,
                 const MergeBelow& merge) {
  uint64_t min_bytes = total_bytes / kMaxScreenWidthPixels;
  while (count() > max_count) {
    merge(min_bytes);
    if (min_bytes >= total_bytes) return;
    min_bytes = min_bytes > total_bytes / 2 ? total_bytes : std::max<uint64_t>(2 * min_bytes, 1);
  }
}

}  // namespace ashlar::view
