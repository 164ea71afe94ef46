// Whether a group still works. Everyone who waits looks here now and then, so that one rank's death
// ends every wait of its group, whatever it was for.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "ashlar/status.h"
#include "base/mutex.h"

namespace ashlar::symm {

class Failure {
 public:
  // The first report is kept: what failed later failed because of it.
  void report(Status reason) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (has_happened()) return;
    reason_ = std::move(reason);
    has_happened_.store(true, std::memory_order_release);
  }

  bool has_happened() const { return has_happened_.load(std::memory_order_acquire); }
  // Ok while nothing has.
  Status reason() const ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return reason_;
  }

 private:
  std::atomic<bool> has_happened_{false};
  mutable Mutex mutex_;
  Status reason_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
