// SPDX-License-Identifier: Apache-2.0
//
// Work in streams that has not ended yet, counted for whoever must not go before it: handles, which
// keep memory mapped, and groups. Thread safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace ashlar::symm {

// Work that ends without telling anybody, so that it is asked.
class PollableWork {
 public:
  virtual ~PollableWork() = default;
  virtual bool has_ended() = 0;
  virtual void wait() = 0;
};

class InFlightWork {
 public:
  InFlightWork() = default;
  ~InFlightWork() { wait(); }
  InFlightWork(const InFlightWork&) = delete;
  InFlightWork& operator=(const InFlightWork&) = delete;

  // One piece of work: it ends with the last copy of this, also if it never ran.
  std::shared_ptr<void> begin() ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    auto piece = std::make_shared<Piece>(*this);
    ++count_;
    return piece;
  }
  // The same of work that is asked. What has ended goes, the oldest first.
  void add(std::unique_ptr<PollableWork> piece) ASHLAR_EXCLUDES(mutex_) {
    std::deque<std::unique_ptr<PollableWork>> ended;  // goes after the lock
    MutexLock lock(mutex_);
    while (!asked_.empty() && asked_.front()->has_ended()) {
      ended.push_back(std::move(asked_.front()));
      asked_.pop_front();
    }
    asked_.push_back(std::move(piece));
  }
  void wait() ASHLAR_EXCLUDES(mutex_) {
    std::deque<std::unique_ptr<PollableWork>> asked;
    {
      MutexLock lock(mutex_);
      asked = std::exchange(asked_, {});
      while (count_ > 0) lock.wait(has_ended_);
    }
    for (const auto& each : asked) each->wait();
  }

 private:
  struct Piece {
    explicit Piece(InFlightWork& counter) : all(counter) {}
    ~Piece() { all.end(); }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    InFlightWork& all;
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
  std::deque<std::unique_ptr<PollableWork>> asked_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
