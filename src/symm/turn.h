// One thread of a rank at a time, for acts that wait for other ranks. Such an act may take for
// ever, so who waits for his turn waits no longer than until his own deadline: that is what a Mutex
// does not offer. Clang checks it like one.
#pragma once

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
    MutexLock lock(mutex_);
    while (is_taken_) {
      if (deadline.has_passed()) return false;
      if (deadline.is_never()) lock.wait(is_over_);
      if (!deadline.is_never()) lock.wait_until(is_over_, deadline.at());
    }
    is_taken_ = true;
    return true;
  }
  // What whoever did not get it returns. `act`: "a barrier".
  static Status not_taken(std::string_view act) {
    return Status::timeout(text("another thread of this rank was in ", act, " until the deadline"));
  }

 private:
  friend class TurnTaken;
  void end() ASHLAR_RELEASE() {
    {
      MutexLock lock(mutex_);
      is_taken_ = false;
    }
    is_over_.notify_one();
  }

  Mutex mutex_;
  std::condition_variable is_over_;
  bool is_taken_ ASHLAR_GUARDED_BY(mutex_) = false;
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
