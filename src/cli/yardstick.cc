// SPDX-License-Identifier: Apache-2.0
//
// Additions that do not wait for each other: as many at once as a core can do alone.
#include "cli/yardstick.h"

#include <chrono>
#include <cstdint>

namespace ashlar {

double measure_yardstick() {
  constexpr uint64_t kTurns = 20'000;
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t c = 0;
  uint64_t d = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < kTurns; ++i) {
    a += i;
    b += i;
    c += i;
    d += i;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));  // all of it is done, turn by turn
  }
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

}  // namespace ashlar
