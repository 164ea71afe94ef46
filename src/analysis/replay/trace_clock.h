// SPDX-License-Identifier: Apache-2.0
//
// The time of a recorded run, for whoever lives through it again: a clock that goes from act to act
// as the trace says. An engine that measures its own costs by time then does as it would have.
#pragma once

#include <optional>

#include "ashlar/clock.h"
#include "ashlar/trace.h"

namespace ashlar {

class RecordedTime {
 public:
  Clock& clock() { return clock_; }

  // Until the act is due. Old files have no times, and files may say anything: nobody waits
  // backwards, or for longer than a year.
  void wait_for(const TraceEntry& entry) {
    if (!entry.has_time) return clock_.advance_ns(kUntimedActNs);
    if (!first_us_) first_us_ = entry.time_us;
    const auto due_us = static_cast<uint64_t>(entry.time_us) - static_cast<uint64_t>(*first_us_);
    const auto passed_us = static_cast<uint64_t>(clock_.now_ns()) / 1000;
    const bool is_sane = due_us > passed_us && due_us < kYearUs;
    if (is_sane) clock_.advance_ns(static_cast<int64_t>(due_us - passed_us) * 1000);
  }

 private:
  static constexpr int64_t kUntimedActNs = 10'000;
  static constexpr uint64_t kYearUs = 366ULL * 24 * 3600 * 1'000'000;

  ManualClock clock_;
  std::optional<int64_t> first_us_;
};

}  // namespace ashlar
