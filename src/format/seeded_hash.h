// SPDX-License-Identifier: Apache-2.0
//
// A hash of bytes that differs from run to run, so that no file can be made of strings that
// collide and take quadratic time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>

namespace ashlar {

class SeededHash {
 public:
  SeededHash() {
    std::random_device device;
    seed_ = uint64_t{device()} << 32 | device();
  }

  size_t operator()(std::string_view bytes) const {
    uint64_t hash = seed_ ^ bytes.size();
    while (!bytes.empty()) {
      uint64_t part = 0;
      bytes.remove_prefix(bytes.copy(reinterpret_cast<char*>(&part), sizeof(part)));
      hash = (hash ^ part) * (seed_ | 1);
      hash ^= hash >> 29;
    }
    return hash * 0x9e3779b97f4a7c15u;  // the golden ratio: spreads what is left
  }

 private:
  uint64_t seed_;
};

}  // namespace ashlar
