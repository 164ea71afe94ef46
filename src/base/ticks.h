// SPDX-License-Identifier: Apache-2.0
//
// Time in the processor's own counter: a few nanoseconds to read, and turned into the calendar's
// time only when somebody looks. Exact to about a microsecond over hours.
#pragma once

#include <chrono>
#include <cstdint>

namespace ashlar {

// Never goes backwards on one thread; between threads as exact as the machine's counters agree.
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

// Pairs of tick and calendar time, taken at two moments; the line through them gives the rest.
class TickClock {
 public:
  TickClock();

  // Reads both clocks again: for times read since, and before, the line is now the better one.
  void calibrate();
  // Microseconds since 1970.
  int64_t unix_us(uint64_t ticks) const;

 private:
  struct Moment {
    uint64_t ticks = 0;
    int64_t unix_ns = 0;
  };
  static Moment now();

  Moment start_;
  Moment last_;
};

}  // namespace ashlar
