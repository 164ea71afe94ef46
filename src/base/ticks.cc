// SPDX-License-Identifier: Apache-2.0
//
// Samples the counter together with the system clock, and interpolates between two samples.
#include "base/ticks.h"

namespace ashlar {

TickClock::TickClock() : start_(now()), last_(start_) {}

void TickClock::calibrate() { last_ = now(); }

TickClock::Sample TickClock::now() {
  const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
  return {ticks_now(), std::chrono::duration_cast<std::chrono::nanoseconds>(unix_time).count()};
}

// Until calibrate has taken a second sample, the rate is unknown, and all ticks map to the time of
// the first sample.
int64_t TickClock::unix_us(uint64_t ticks) const {
  const double elapsed_ticks = static_cast<double>(last_.ticks - start_.ticks);
  const double ns_per_tick =
      elapsed_ticks > 0 ? static_cast<double>(last_.unix_ns - start_.unix_ns) / elapsed_ticks : 0;
  const double since_start = static_cast<double>(static_cast<int64_t>(ticks - start_.ticks));
  return (start_.unix_ns + static_cast<int64_t>(since_start * ns_per_tick)) / 1000;
}

}  // namespace ashlar
