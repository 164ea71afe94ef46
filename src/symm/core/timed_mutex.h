// SPDX-License-Identifier: Apache-2.0
//
// A mutex whose lock operation takes a deadline.
//
// Unlike a `Mutex`, it may be held while its holder waits for other ranks or for a device. Such a
// wait can last indefinitely, so a thread that waits for the lock gives up at its own deadline.
// Clang's thread-safety analysis treats it like a `Mutex`.
#pragma once

#include <atomic>
#include <condition_variable>
#include <string_view>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "base/mutex.h"
#include "base/text.h"

namespace ashlar::symm {

class ASHLAR_CAPABILITY("timed mutex") TimedMutex {
 public:
  // Returns false if another thread still holds the lock at the deadline. A deadline in the past
  // allows one attempt. Unlock with a `TimedLock`.
  bool try_lock_until(Deadline deadline) ASHLAR_THREAD_ATTRIBUTE(try_acquire_capability(true)) {
    State expected = State::kFree;
    return state_.compare_exchange_strong(expected, State::kLocked, std::memory_order_acquire) ||
           lock_slow(deadline);
  }

  // Returns the status for a caller that did not get the lock. `operation` says what the thread
  // that holds the lock does, with an article: "a barrier".
  static Status timeout_error(std::string_view operation) {
    return Status::timeout(
        text("another thread of this rank was in ", operation, " until the deadline"));
  }

 private:
  friend class TimedLock;
  enum class State { kFree, kLocked, kContended };

  // Every attempt stores kContended, including the one that acquires the lock, so that `unlock`
  // wakes another thread that may still be waiting.
  bool lock_slow(Deadline deadline) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (state_.exchange(State::kContended, std::memory_order_acquire) != State::kFree) {
      if (deadline.has_passed()) return false;
      if (deadline.is_never()) lock.wait(unlocked_);
      if (!deadline.is_never()) lock.wait_until(unlocked_, deadline.at());
    }
    return true;
  }
  void unlock() ASHLAR_RELEASE() {
    if (state_.exchange(State::kFree, std::memory_order_release) == State::kContended) wake_one();
  }
  // Takes the mutex, so that a waiter between its attempt and its wait does not miss the wake-up.
  void wake_one() ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    unlocked_.notify_one();
  }

  std::atomic<State> state_{State::kFree};
  Mutex mutex_;
  std::condition_variable unlocked_;
};

// Adopts a locked `TimedMutex` and unlocks it at the end of the scope.
class ASHLAR_SCOPED_CAPABILITY TimedLock {
 public:
  explicit TimedLock(TimedMutex& mutex) ASHLAR_REQUIRES(mutex) : mutex_(mutex) {}
  ~TimedLock() ASHLAR_RELEASE() { mutex_.unlock(); }
  TimedLock(const TimedLock&) = delete;
  TimedLock& operator=(const TimedLock&) = delete;

 private:
  TimedMutex& mutex_;
};

}  // namespace ashlar::symm
