// SPDX-License-Identifier: Apache-2.0
//
// A round over all pulses, then a rest.
#include "symm/membership/heartbeat_thread.h"

#include <algorithm>

#include "base/thread.h"

namespace ashlar::symm {

Result<std::unique_ptr<Heart>> Heart::start(std::chrono::milliseconds interval) {
  if (interval.count() < 1)
    return Status::invalid_argument("a heart beats at most once in a millisecond");
  std::unique_ptr<Heart> heart(new Heart(interval));
  Result<std::thread> thread = start_thread([raw = heart.get()] { raw->run(); });
  if (!thread.ok()) return thread.status();
  heart->thread_ = *std::move(thread);
  return heart;
}

Heart::~Heart() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Heart::add(Pulse& pulse) {
  MutexLock lock(mutex_);
  pulses_.push_back(&pulse);
  is_awaited_ = true;
  changed_.notify_all();
}

void Heart::remove(Pulse& pulse) {
  MutexLock lock(mutex_);
  std::erase(pulses_, &pulse);
  while (beating_ == &pulse) lock.wait(changed_);
}

void Heart::run() {
  MutexLock lock(mutex_);
  while (!is_stopping_) {
    is_awaited_ = false;
    const auto next = Deadline::Clock::now() + interval_;
    const std::vector<Pulse*> round = pulses_;
    for (Pulse* pulse : round) {
      const bool is_gone = std::find(pulses_.begin(), pulses_.end(), pulse) == pulses_.end();
      if (is_stopping_ || is_gone) continue;
      beating_ = pulse;
      {
        const MutexUnlock unlocked(mutex_);  // a store is asked
        pulse->beat(Deadline::after(interval_));
      }
      beating_ = nullptr;
      changed_.notify_all();
    }
    while (!is_stopping_ && !is_awaited_ && Deadline::Clock::now() < next) {
      lock.wait_until(changed_, next);
    }
  }
}

}  // namespace ashlar::symm
