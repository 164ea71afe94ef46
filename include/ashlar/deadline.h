// SPDX-License-Identifier: Apache-2.0
//
// By when something must be over: one moment, handed down through every step, so that a call with
// many waits takes no longer than its caller said.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ashlar {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline never() { return Deadline(Clock::time_point::max()); }
  // Longer than a century is for ever: moments beyond do not fit the clock. Compared as it is,
  // since as nanoseconds it might not fit either.
  template <typename Rep, typename Period>
  static Deadline after(std::chrono::duration<Rep, Period> duration) {
    const std::chrono::hours century(24 * 36525);
    if (duration > century) return never();
    if (duration < -century) return Deadline(Clock::now());
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(duration));
  }
  // 0 is for ever, as in every public call that takes a timeout.
  static Deadline of_timeout(std::chrono::milliseconds timeout) {
    return timeout.count() == 0 ? never() : after(timeout);
  }

  bool is_never() const { return at_ == Clock::time_point::max(); }
  bool has_passed() const { return !is_never() && Clock::now() >= at_; }
  // 0 once it has passed.
  std::chrono::nanoseconds left() const {
    if (is_never()) return std::chrono::nanoseconds::max();
    return std::max<std::chrono::nanoseconds>(at_ - Clock::now(), std::chrono::nanoseconds(0));
  }
  // For poll(2): -1 is for ever; rounded up, so that 0 means that it has passed.
  int left_for_poll() const {
    if (is_never()) return -1;
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left()).count();
    return static_cast<int>(std::min<int64_t>(left_ms, 1'000'000'000));
  }
  Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}

  Clock::time_point at_;
};

}  // namespace ashlar
