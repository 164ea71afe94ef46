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
class HeartbeatTask {
 public:
  virtual ~HeartbeatTask() = default;
  virtual void run(Deadline deadline) = 0;
};

class HeartbeatThread {
 public:
  static Result<std::unique_ptr<HeartbeatThread>> start(std::chrono::milliseconds interval);
  ~HeartbeatThread();
  HeartbeatThread(const HeartbeatThread&) = delete;
  HeartbeatThread& operator=(const HeartbeatThread&) = delete;

  // It beats at once, and then at every interval.
  void add(HeartbeatTask& task);
  // It does not beat any more when this returns.
  void remove(HeartbeatTask& task);

 private:
  explicit HeartbeatThread(std::chrono::milliseconds interval) : interval_(interval) {}
  void run();

  const std::chrono::milliseconds interval_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool has_new_task_ ASHLAR_GUARDED_BY(mutex_) = false;  // somebody new wants a beat
  std::vector<HeartbeatTask*> tasks_ ASHLAR_GUARDED_BY(mutex_);
  HeartbeatTask* running_ ASHLAR_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace ashlar::symm
