// SPDX-License-Identifier: Apache-2.0
//
// A thread that polls every 0.1 ms as long as each poll requests another, and otherwise sleeps on a
// condition variable. The thread starts on the first `wake` and ends with the object. Thread safe.
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

  // `poll` runs on the poller's thread with no lock held and returns whether to poll again. `clock`
  // times the pauses and outlives the poller.
  Poller(Clock& clock, std::function<bool()> poll) : clock_(clock), poll_(std::move(poll)) {}
  // Waits for a poll or pause in progress.
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Requests polling. Returns false if the system refused a thread or memory for it; nothing is
  // then polled before a later call succeeds.
  [[nodiscard]] bool wake() noexcept;

 private:
  void run();
  bool poll_again() const noexcept;

  Clock& clock_;
  const std::function<bool()> poll_;

  Mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_ ASHLAR_GUARDED_BY(mutex_);
  bool awake_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar
