// SPDX-License-Identifier: Apache-2.0
//
// One thread per process that periodically runs a task for each group of the process. The task
// publishes a heartbeat and checks the heartbeats of the other ranks. Thread safe.
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

  // Runs the task as soon as possible and then once per interval. REQUIRES: `task` stays valid
  // until `remove`.
  void add(HeartbeatTask& task);
  // Removes the task. On return, the task is not running and will not run again.
  void remove(HeartbeatTask& task);

 private:
  explicit HeartbeatThread(std::chrono::milliseconds interval) : interval_(interval) {}
  void run();
  bool run_round();  // returns false when the thread should stop

  const std::chrono::milliseconds interval_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool has_new_task_ ASHLAR_GUARDED_BY(mutex_) = false;  // a task was added since the last round
  std::vector<HeartbeatTask*> tasks_ ASHLAR_GUARDED_BY(mutex_);
  HeartbeatTask* running_task_ ASHLAR_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace ashlar::symm
