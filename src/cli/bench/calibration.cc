// SPDX-License-Identifier: Apache-2.0
//
// Runs four independent chains of additions, which saturate the core's integer units, so that a
// busy sibling hyper-thread slows the loop down.
#include "cli/bench/calibration.h"

#include <chrono>
#include <cstdint>

namespace ashlar {

double measure_calibration_loop() {
  constexpr uint64_t kIterations = 20'000;
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t c = 0;
  uint64_t d = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < kIterations; ++i) {
    a += i;
    b += i;
    c += i;
    d += i;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));  // keep every iteration
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count();
}

}  // namespace ashlar
