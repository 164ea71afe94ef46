// SPDX-License-Identifier: Apache-2.0
//
// An injectable clock: code that measures or waits for time takes a `Clock`, so that tests control
// it.
//
// Errors: none.
#pragma once

#include <atomic>
#include <cstdint>

#include "ashlar/export.h"

namespace ashlar {

// A monotonic clock with an arbitrary origin. Thread safe.
class ASHLAR_EXPORT Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() = 0;
  virtual void sleep_ns(int64_t duration_ns) = 0;
};

// The host's monotonic clock.
class ASHLAR_EXPORT SteadyClock final : public Clock {
 public:
  int64_t now_ns() override;
  void sleep_ns(int64_t duration_ns) override;
};

// A clock for tests that advances only through sleep_ns and advance_ns.
class ASHLAR_EXPORT ManualClock final : public Clock {
 public:
  int64_t now_ns() override { return now_ns_.load(); }
  void sleep_ns(int64_t duration_ns) override { advance_ns(duration_ns); }
  void advance_ns(int64_t duration_ns) { now_ns_.fetch_add(duration_ns); }

 private:
  std::atomic<int64_t> now_ns_{0};
};

}  // namespace ashlar
