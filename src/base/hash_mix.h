// SPDX-License-Identifier: Apache-2.0
//
// Multiplicative hashing for tables with a power-of-two size.
#pragma once

#include <cstdint>

namespace ashlar {

// Use the upper bits of the result: nearby keys and multiples of each other spread evenly. The
// factor is 2^64 divided by the golden ratio.
constexpr uint64_t hash_mix(uint64_t key) { return key * 0x9e3779b97f4a7c15ULL; }

}  // namespace ashlar
