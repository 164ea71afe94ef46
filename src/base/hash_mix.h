// SPDX-License-Identifier: Apache-2.0
//
// For tables with as many places as a power of two.
#pragma once

#include <cstdint>

namespace ashlar {

// The upper bits of the answer are the place: keys that are near each other, or multiples of each
// other, come far apart. By the golden ratio.
constexpr uint64_t hash_mix(uint64_t key) { return key * 0x9e3779b97f4a7c15ULL; }

}  // namespace ashlar
