// SPDX-License-Identifier: Apache-2.0
//
// Implements SteadyClock on the host's monotonic clock.
#include "ashlar/clock.h"

#include <chrono>
#include <thread>

namespace ashlar {

int64_t SteadyClock::now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void SteadyClock::sleep_ns(int64_t duration_ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns));
}

}  // namespace ashlar
