// SPDX-License-Identifier: Apache-2.0
//
// Time, injected: whoever needs to know or to wait for time is given a `Clock`.
#pragma once

#include <atomic>
#include <cstdint>

#include "ashlar/export.h"

namespace ashlar {

// Thread safe. Time never goes backwards; its origin is arbitrary.
class ASHLAR_EXPORT Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() = 0;
  virtual void sleep_ns(int64_t duration_ns) = 0;
};

// The machine's monotonic clock; sleeping really sleeps.
class ASHLAR_EXPORT SteadyClock final : public Clock {
 public:
  int64_t now_ns() override;
  void sleep_ns(int64_t duration_ns) override;
};

// Stands still until somebody sleeps on it or advances it: a test's clock.
class ASHLAR_EXPORT ManualClock final : public Clock {
 public:
  int64_t now_ns() override { return now_ns_.load(); }
  void sleep_ns(int64_t duration_ns) override { advance_ns(duration_ns); }
  void advance_ns(int64_t duration_ns) { now_ns_.fetch_add(duration_ns); }

 private:
  std::atomic<int64_t> now_ns_{0};
};

}  // namespace ashlar
