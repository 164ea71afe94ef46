// SPDX-License-Identifier: Apache-2.0
//
// One thread of a rank at a time, for acts that wait for other ranks. Such an act may take for
// ever, so who waits for his turn waits no longer than until his own deadline: that is what a Mutex
// does not offer. Clang checks it like one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <string_view>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "base/mutex.h"
#include "base/text.h"

namespace ashlar::symm {

class ASHLAR_CAPABILITY("turn") Turn {
 public:
  // False: another thread still has it at the deadline. One that has passed gets one look.
  bool take(Deadline deadline) ASHLAR_THREAD_ATTRIBUTE(try_acquire_capability(true)) {
    State found = State::kFree;
    return state_.compare_exchange_strong(found, State::kTaken, std::memory_order_acquire) ||
           wait_for_it(deadline);
  }
  // What whoever did not get it returns. `act`: "a barrier".
  static Status not_taken(std::string_view act) {
    return Status::timeout(text("another thread of this rank was in ", act, " until the deadline"));
  }

 private:
  friend class TurnTaken;
  enum class State { kFree, kTaken, kWaitedFor };

  // Whoever waits says so in the state at each look, and so does whoever takes it after a wait:
  // others may wait, too.
  bool wait_for_it(Deadline deadline) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (state_.exchange(State::kWaitedFor, std::memory_order_acquire) != State::kFree) {
      if (deadline.has_passed()) return false;
      if (deadline.is_never()) lock.wait(is_over_);
      if (!deadline.is_never()) lock.wait_until(is_over_, deadline.at());
    }
    return true;
  }
  void end() ASHLAR_RELEASE() {
    if (state_.exchange(State::kFree, std::memory_order_release) == State::kWaitedFor) tell();
  }
  // Under the lock: whoever is between its look and its sleep would not hear it.
  void tell() ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    is_over_.notify_one();
  }

  std::atomic<State> state_{State::kFree};
  Mutex mutex_;
  std::condition_variable is_over_;
};

// Ends a turn that was taken where its scope ends.
class ASHLAR_SCOPED_CAPABILITY TurnTaken {
 public:
  explicit TurnTaken(Turn& turn) ASHLAR_REQUIRES(turn) : turn_(turn) {}
  ~TurnTaken() ASHLAR_RELEASE() { turn_.end(); }
  TurnTaken(const TurnTaken&) = delete;
  TurnTaken& operator=(const TurnTaken&) = delete;

 private:
  Turn& turn_;
};

}  // namespace ashlar::symm
