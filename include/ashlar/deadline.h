// SPDX-License-Identifier: Apache-2.0
//
// A point in time that is passed down through every step of a call, so that a call with several
// waits takes no longer than its caller allowed.
//
// Errors: none.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ashlar {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline never() { return Deadline(Clock::time_point::max()); }
  // A duration of more than a century counts as never: the clock's 64-bit nanoseconds cannot
  // represent more than 292 years. The comparison precedes the conversion to nanoseconds, because
  // the conversion might overflow.
  template <typename Rep, typename Period>
  static Deadline after(std::chrono::duration<Rep, Period> duration) {
    const std::chrono::hours century(24 * 36525);
    if (duration > century) return never();
    if (duration < -century) return Deadline(Clock::now());
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(duration));
  }
  // Like `after`, except that a timeout of 0 (symm::kNoTimeout) means never.
  static Deadline of_timeout(std::chrono::milliseconds timeout) {
    return timeout.count() == 0 ? never() : after(timeout);
  }

  bool is_never() const { return at_ == Clock::time_point::max(); }
  bool has_passed() const { return !is_never() && Clock::now() >= at_; }
  // Returns the remaining time; 0 once the deadline has passed.
  std::chrono::nanoseconds left() const {
    if (is_never()) return std::chrono::nanoseconds::max();
    return std::max<std::chrono::nanoseconds>(at_ - Clock::now(), std::chrono::nanoseconds(0));
  }
  // Returns the remaining time as a timeout for poll(2), but at most 10^9 ms. Rounds up, so that
  // only a passed deadline yields 0. Returns -1 if the deadline never passes.
  int poll_timeout_ms() const {
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
