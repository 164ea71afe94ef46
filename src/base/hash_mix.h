// SPDX-License-Identifier: Apache-2.0
//
// Multiplicative hashing for tables with a power-of-two size.
#pragma once

#include <cstdint>

namespace ashlar {

// Returns a hash whose upper bits are evenly spread, even for consecutive keys and for multiples of
// a power of two. Callers must use the upper bits. The factor is 2^64 divided by the golden ratio.
constexpr uint64_t hash_mix(uint64_t key) { return key * 0x9e3779b97f4a7c15ULL; }

}  // namespace ashlar
