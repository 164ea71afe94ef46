// Work in streams that has not ended yet, counted for whoever must not go before it: handles, which
// keep memory mapped, and groups. Thread safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>

#include "base/mutex.h"

namespace ashlar::symm {

class InFlight {
 public:
  InFlight() = default;
  ~InFlight() { wait(); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  // One piece of work: it ends with the last copy of this, also if it never ran.
  std::shared_ptr<void> begin() ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    auto piece = std::make_shared<Piece>(*this);
    ++count_;
    return piece;
  }
  void wait() ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (count_ > 0) lock.wait(has_ended_);
  }

 private:
  struct Piece {
    explicit Piece(InFlight& counter) : all(counter) {}
    ~Piece() { all.end(); }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    InFlight& all;
  };

  // Notified under the lock: whoever waits may destroy this next.
  void end() ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    --count_;
    has_ended_.notify_all();
  }

  Mutex mutex_;
  std::condition_variable has_ended_;
  uint64_t count_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::symm
