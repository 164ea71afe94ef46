// SPDX-License-Identifier: Apache-2.0
//
// The clock of a replay, which follows the times of the trace. Engines that measure elapsed time
// then behave as in the recorded run. Not thread safe.
#pragma once

#include <optional>

#include "ashlar/clock.h"
#include "ashlar/trace.h"

namespace ashlar {

class TraceClock {
 public:
  Clock& clock() { return clock_; }

  // Advances to the time of the entry. Entries without a time advance by a constant. Times that go
  // backwards, or that are more than a year after the first time, are ignored.
  void advance_to(const TraceEntry& entry) {
    if (!entry.has_time) return clock_.advance_ns(kUntimedStepNs);
    if (!first_us_) first_us_ = entry.time_us;
    const auto due_us = static_cast<uint64_t>(entry.time_us) - static_cast<uint64_t>(*first_us_);
    const auto passed_us = static_cast<uint64_t>(clock_.now_ns()) / 1000;
    const bool is_sane = due_us > passed_us && due_us < kYearUs;
    if (is_sane) clock_.advance_ns(static_cast<int64_t>(due_us - passed_us) * 1000);
  }

 private:
  static constexpr int64_t kUntimedStepNs = 10'000;
  static constexpr uint64_t kYearUs = 366ULL * 24 * 3600 * 1'000'000;

  ManualClock clock_;
  std::optional<int64_t> first_us_;
};

}  // namespace ashlar
