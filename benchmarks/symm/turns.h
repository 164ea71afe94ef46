// SPDX-License-Identifier: Apache-2.0
//
// How large, and how often.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ashlar::symm {

inline constexpr size_t kMostBytes = size_t{16} << 20;

// So that a round moves about as many bytes, whatever the size.
inline int turns_for(size_t bytes, size_t most) {
  return static_cast<int>(std::clamp<size_t>(kMostBytes / bytes, 4, most));
}

}  // namespace ashlar::symm
