// SPDX-License-Identifier: Apache-2.0
//
// Counts work in streams that has not completed. Groups and handles keep the memory that the work
// uses mapped, so they wait for the work before they are destroyed. Thread safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace ashlar::symm {

// Work that does not signal its completion and therefore has to be polled.
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

  // Sets the object whose destructor waits for the work. A graph that contains such work can be
  // launched at any time, so no destructor can wait for the work; the graph shares ownership of
  // the object instead. Call before other threads use this.
  void set_owner(std::weak_ptr<const void> owner) { owner_ = std::move(owner); }
  std::shared_ptr<const void> owner() const { return owner_.lock(); }

  // Registers one piece of work. The work counts as completed when the last copy of the returned
  // pointer is destroyed, even if it never ran.
  std::shared_ptr<void> begin() ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return begin_locked();
  }
  // Registers work that has to be polled. Also drops polled work that has completed, oldest first,
  // up to the first that has not.
  void add(std::unique_ptr<PollableWork> work) ASHLAR_EXCLUDES(mutex_) {
    std::deque<std::unique_ptr<PollableWork>> ended;  // destroyed after the lock is released
    MutexLock lock(mutex_);
    while (!pollable_.empty() && pollable_.front()->has_ended()) {
      ended.push_back(std::move(pollable_.front()));
      pollable_.pop_front();
    }
    pollable_.push_back(std::move(work));
  }
  // Waits for all work that was registered before the call, and for work that `begin` registers
  // during the call. While one thread polls work, other threads that call this function wait for
  // that thread.
  void wait() ASHLAR_EXCLUDES(mutex_) {
    std::deque<std::unique_ptr<PollableWork>> pollable;
    std::shared_ptr<void> polling;  // makes concurrent calls wait until this call has polled
    {
      MutexLock lock(mutex_);
      pollable = std::exchange(pollable_, {});
      if (!pollable.empty()) polling = begin_locked();
    }
    for (const auto& each : pollable) each->wait();
    polling.reset();
    MutexLock lock(mutex_);
    while (count_ > 0) lock.wait(work_ended_);
  }

 private:
  struct Registration {
    explicit Registration(InFlightWork& work) : owner(work) {}
    ~Registration() { owner.end(); }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    InFlightWork& owner;
  };

  std::shared_ptr<void> begin_locked() ASHLAR_REQUIRES(mutex_) {
    auto registration = std::make_shared<Registration>(*this);
    ++count_;
    return registration;
  }
  // Notifies under the lock: a waiter may destroy this object as soon as it is woken.
  void end() ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    --count_;
    work_ended_.notify_all();
  }

  std::weak_ptr<const void> owner_;

  Mutex mutex_;
  std::condition_variable work_ended_;
  // The work that `begin` registered, and the calls of `wait` that are polling.
  uint64_t count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::deque<std::unique_ptr<PollableWork>> pollable_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
