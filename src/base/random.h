// SPDX-License-Identifier: Apache-2.0
//
// Reproducible random numbers: a seed gives the same sequence on every machine and standard
// library, which std::uniform_int_distribution does not guarantee.
#pragma once

#include <cstdint>

namespace ashlar {

// SplitMix64 (Steele, Lea and Flood). One word of state. Not cryptographically secure.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
  }

  // Returns a number in [0, bound). REQUIRES: bound > 0. The bias is below bound / 2^64.
  uint64_t below(uint64_t bound) { return next() % bound; }

  // Returns a number in [0, 1).
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace ashlar
