// SPDX-License-Identifier: Apache-2.0
//
// How an all-reduce in two steps divides its bytes among the ranks.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ashlar::symm {

struct Part {
  size_t begin_bytes = 0;
  size_t bytes = 0;
};

// What every rank gets but the last, whose part may be short or empty. Parts begin at whole cache
// lines, so that no two ranks write one.
inline size_t part_bytes(int world_size, size_t total_bytes) {
  constexpr size_t kLineBytes = 64;
  const auto ranks = static_cast<size_t>(world_size);
  const size_t lines = (total_bytes + kLineBytes - 1) / kLineBytes;
  return (lines + ranks - 1) / ranks * kLineBytes;
}

inline Part part_of(int rank, int world_size, size_t total_bytes) {
  const size_t step = part_bytes(world_size, total_bytes);
  const size_t begin = std::min(total_bytes, step * static_cast<size_t>(rank));
  return {.begin_bytes = begin, .bytes = std::min(step, total_bytes - begin)};
}

}  // namespace ashlar::symm
