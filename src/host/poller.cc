// SPDX-License-Identifier: Apache-2.0
//
// Runs the polling thread.
#include "host/poller.h"

#include "base/host_memory.h"
#include "base/thread.h"

namespace ashlar {

Poller::~Poller() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
}

bool Poller::wake() noexcept {
  MutexLock lock(mutex_);
  awake_ = true;
  changed_.notify_all();
  if (thread_.joinable()) return true;
  Result<std::thread> started = without_bad_alloc([&] { return start_thread([this] { run(); }); });
  if (!started.ok()) return false;
  thread_ = *std::move(started);
  return true;
}

// Clears awake_ before polling, so that a wake during the poll is not lost.
void Poller::run() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!awake_ && !stopping_) lock.wait(changed_);
      if (stopping_) return;
      awake_ = false;
    }
    if (!poll_again()) continue;
    {
      MutexLock lock(mutex_);
      awake_ = true;
      if (stopping_) return;
    }
    clock_.sleep_ns(kPeriodNs);
  }
}

// An exception, such as std::bad_alloc, must not end the process, so the poll is repeated.
bool Poller::poll_again() const noexcept {
  try {
    return poll_();
  } catch (...) {
    return true;
  }
}

}  // namespace ashlar
