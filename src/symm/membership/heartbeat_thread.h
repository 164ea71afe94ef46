// SPDX-License-Identifier: Apache-2.0
//
// One thread for each process that does something for each of its groups again and again: say that
// it lives, and look whether the others do. Thread safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "base/mutex.h"

namespace ashlar::symm {

// What is done.
class Pulse {
 public:
  virtual ~Pulse() = default;
  virtual void beat(Deadline deadline) = 0;
};

class Heart {
 public:
  static Result<std::unique_ptr<Heart>> start(std::chrono::milliseconds interval);
  ~Heart();
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

  // It beats at once, and then at every interval.
  void add(Pulse& pulse);
  // It does not beat any more when this returns.
  void remove(Pulse& pulse);

 private:
  explicit Heart(std::chrono::milliseconds interval) : interval_(interval) {}
  void run();

  const std::chrono::milliseconds interval_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool is_awaited_ ASHLAR_GUARDED_BY(mutex_) = false;  // somebody new wants a beat
  std::vector<Pulse*> pulses_ ASHLAR_GUARDED_BY(mutex_);
  Pulse* beating_ ASHLAR_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace ashlar::symm
