// SPDX-License-Identifier: Apache-2.0
//
// A hash that is the same on all machines. It detects mistakes; it is not cryptographic.
#pragma once

#include <cstdint>
#include <string_view>

namespace ashlar::symm {

inline constexpr uint64_t kHashSeed = 0xcbf29ce484222325ULL;

// 64-bit FNV-1a, continued from `hash`. Start with kHashSeed.
constexpr uint64_t hash_append(uint64_t hash, std::string_view bytes) {
  for (char byte : bytes) {
    hash ^= static_cast<uint8_t>(byte);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

// Appends the eight bytes of `number`, least significant byte first.
constexpr uint64_t hash_append(uint64_t hash, uint64_t number) {
  for (int i = 0; i < 8; ++i) {
    hash ^= (number >> (8 * i)) & 255;
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace ashlar::symm
