// SPDX-License-Identifier: Apache-2.0
//
// Sizes by powers of two, for tables that people read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ashlar {

// n, where 2^n <= bytes < 2^(n + 1). 0 for 0 bytes.
constexpr uint32_t size_class_of(size_t bytes) {
  return bytes == 0 ? 0 : static_cast<uint32_t>(std::bit_width(bytes)) - 1;
}

}  // namespace ashlar
