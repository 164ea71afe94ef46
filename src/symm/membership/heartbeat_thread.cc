// SPDX-License-Identifier: Apache-2.0
//
// Runs all tasks on one thread, once per interval and whenever a task is added.
#include "symm/membership/heartbeat_thread.h"

#include <algorithm>

#include "base/text.h"
#include "base/thread.h"

namespace ashlar::symm {
namespace {

// If the task throws because host memory runs out, it runs again in the next round.
void try_run(HeartbeatTask& task, Deadline deadline) noexcept {
  try {
    task.run(deadline);
  } catch (...) {  // NOLINT(bugprone-empty-catch): an exception would end the process
  }
}

}  // namespace

Result<std::unique_ptr<HeartbeatThread>> HeartbeatThread::start(
    std::chrono::milliseconds interval) {
  if (interval.count() < 1)
    return Status::invalid_argument(
        text("heartbeat interval of ", interval.count(), " ms: expected at least 1 ms"));
  std::unique_ptr<HeartbeatThread> heartbeat_thread(new HeartbeatThread(interval));
  Result<std::thread> thread = start_thread([raw = heartbeat_thread.get()] { raw->run(); });
  if (!thread.ok()) return thread.status();
  heartbeat_thread->thread_ = *std::move(thread);
  return heartbeat_thread;
}

HeartbeatThread::~HeartbeatThread() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void HeartbeatThread::add(HeartbeatTask& task) {
  MutexLock lock(mutex_);
  tasks_.push_back(&task);
  has_new_task_ = true;
  changed_.notify_all();
}

void HeartbeatThread::remove(HeartbeatTask& task) {
  MutexLock lock(mutex_);
  std::erase(tasks_, &task);
  while (running_task_ == &task) lock.wait(changed_);
}

void HeartbeatThread::run() {
  run_steps([this] { return run_round(); },
            [this] {
              MutexLock lock(mutex_);
              return is_stopping_;
            });
}

bool HeartbeatThread::run_round() {
  MutexLock lock(mutex_);
  if (is_stopping_) return false;
  has_new_task_ = false;
  const auto next = Deadline::Clock::now() + interval_;
  const std::vector<HeartbeatTask*> round = tasks_;
  for (HeartbeatTask* task : round) {
    const bool is_removed = std::find(tasks_.begin(), tasks_.end(), task) == tasks_.end();
    if (is_stopping_ || is_removed) continue;
    running_task_ = task;
    {
      const MutexUnlock unlocked(mutex_);  // the task accesses the store
      try_run(*task, Deadline::after(interval_));
    }
    running_task_ = nullptr;
    changed_.notify_all();
  }
  while (!is_stopping_ && !has_new_task_ && Deadline::Clock::now() < next) {
    lock.wait_until(changed_, next);
  }
  return !is_stopping_;
}

}  // namespace ashlar::symm
