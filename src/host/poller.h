// SPDX-License-Identifier: Apache-2.0
//
// A thread that asks again and again, a tenth of a millisecond apart, while there is something to
// ask for, and sleeps on a condition while there is not. It starts when first woken and ends with
// the poller. Thread safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <thread>

#include "ashlar/clock.h"
#include "base/mutex.h"

namespace ashlar {

class Poller {
 public:
  static constexpr int64_t kPeriodNs = 100'000;

  // `poll` is called on the poller's thread, with no lock held; it says whether to poll again.
  // Pauses go by the clock, which outlives the poller.
  Poller(Clock& clock, std::function<bool()> poll) : clock_(clock), poll_(std::move(poll)) {}
  // Waits for a poll or a pause in progress.
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // There is something to poll for. False: the system has no thread to give, so nobody will.
  [[nodiscard]] bool wake();

 private:
  void run();

  Clock& clock_;
  const std::function<bool()> poll_;

  Mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_ ASHLAR_GUARDED_BY(mutex_);
  bool awake_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar
