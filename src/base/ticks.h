// SPDX-License-Identifier: Apache-2.0
//
// Timestamps from the processor's counter: a few nanoseconds to read, converted to calendar time
// only on output.
#pragma once

#include <chrono>
#include <cstdint>

namespace ashlar {

// Returns the counter's value. Values are monotonic within a thread; across threads, they are as
// consistent as the counters of different processor cores.
inline uint64_t ticks_now() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Converts ticks to calendar time by linear interpolation between two samples of both clocks.
class TickClock {
 public:
  TickClock();

  // Replaces the second sample by a new sample, which makes later conversions more accurate.
  void calibrate();
  // Converts ticks to microseconds since the Unix epoch.
  int64_t unix_us(uint64_t ticks) const;

 private:
  struct Sample {
    uint64_t ticks = 0;
    int64_t unix_ns = 0;
  };
  static Sample now();

  Sample start_;
  Sample last_;
};

}  // namespace ashlar
