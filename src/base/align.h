// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sizes and alignments. Alignments are powers of two.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ashlar {

constexpr bool is_aligned(uint64_t value, uint64_t alignment) {
  return (value & (alignment - 1)) == 0;
}

constexpr uint64_t align_down(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}

// Rounds up to a multiple of `alignment`. REQUIRES: the result does not overflow. Use try_align_up
// for sizes from callers or files.
constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return align_down(value + alignment - 1, alignment);
}

// Rounds up to a multiple of `step`, which need not be a power of two. REQUIRES: the result does
// not overflow.
constexpr uint64_t round_up(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

// Like align_up, but returns nullopt if the result overflows.
constexpr std::optional<uint64_t> try_align_up(uint64_t value, uint64_t alignment) {
  if (value > UINT64_MAX - (alignment - 1)) return std::nullopt;
  return align_up(value, alignment);
}

}  // namespace ashlar
