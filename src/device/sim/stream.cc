// SPDX-License-Identifier: Apache-2.0
//
// A queue and its worker.
#include "device/sim/stream.h"

#include "base/thread.h"
#include "device/sim/scheduler.h"

namespace ashlar::sim {

Stream::Stream(DeviceIndex device, int priority, Clock& clock, Scheduler* scheduler)
    : device_(device), priority_(priority), clock_(clock), scheduler_(scheduler) {}

Stream::~Stream() {
  stop();
  join();
}

void Stream::join() {
  std::thread worker;
  {
    MutexLock lock(mutex_);
    worker.swap(worker_);
  }
  if (worker.joinable()) worker.join();
}

Status Stream::push(Task task) {
  MutexLock lock(mutex_);
  return push_locked(std::move(task));
}

Status Stream::push_locked(Task task) {
  if (stopped_) {
    if (task.completes) task.completes->finish(clock_.now_ns());
    return {};
  }
  if (Status started = start_worker_locked(); !started.ok()) return started;
  tasks_.push_back(std::move(task));
  changed_.notify_all();
  return {};
}

// Looks and pushes under one lock: the worker of a closed stream ends as soon as it finds nothing
// left, and a mark pushed after that would never be reached.
std::shared_ptr<Completion> Stream::mark() {
  auto completion = std::make_shared<Completion>();
  MutexLock lock(mutex_);
  if (tasks_.empty() && !running_) {
    completion->finish(clock_.now_ns());
  } else {
    // There is a worker already, so that this cannot fail.
    (void)push_locked({{}, nullptr, completion, 0}).ok();
  }
  return completion;
}

bool Stream::idle() const {
  MutexLock lock(mutex_);
  return tasks_.empty() && !running_;
}

void Stream::hold() {
  MutexLock lock(mutex_);
  held_ = true;
}

void Stream::hold_until_waited() {
  MutexLock lock(mutex_);
  held_ = held_until_waited_ = true;
}

void Stream::resume() {
  MutexLock lock(mutex_);
  held_ = held_until_waited_ = false;
  changed_.notify_all();
}

bool Stream::resume_for_waiting() {
  MutexLock lock(mutex_);
  if (!held_until_waited_) return false;
  held_ = held_until_waited_ = false;
  changed_.notify_all();
  return true;
}

void Stream::close() {
  MutexLock lock(mutex_);
  closed_ = true;
  held_ = held_until_waited_ = false;
  changed_.notify_all();
}

void Stream::drop() {
  std::deque<Task> dropped;
  {
    MutexLock lock(mutex_);
    dropped.swap(tasks_);
  }
  finish_dropped(dropped);
}

void Stream::stop() {
  std::deque<Task> dropped;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
    changed_.notify_all();
  }
  finish_dropped(dropped);
}

void Stream::finish_dropped(std::deque<Task>& dropped) {
  for (Task& task : dropped) {
    if (task.completes) task.completes->finish(clock_.now_ns());
  }
}

bool Stream::ready() const {
  MutexLock lock(mutex_);
  if (tasks_.empty() || running_ || held_) return false;
  const Task& first = tasks_.front();
  return first.after == nullptr || first.after->done();
}

bool Stream::run_one() {
  Task task;
  {
    MutexLock lock(mutex_);
    if (running_ || held_ || !take_locked(task)) return false;
  }
  perform(task);
  return true;
}

bool Stream::take_locked(Task& task) {
  if (tasks_.empty()) return false;
  task = std::move(tasks_.front());
  tasks_.pop_front();
  running_ = true;
  return true;
}

// The task stops running and its completion is done in one step, together with the marks behind it:
// an idle stream has nothing left that anybody could be waiting for, and a stream that was waited
// for is idle, also while others wait for it.
void Stream::perform(Task& task) {
  if (task.after) task.after->wait();
  if (task.run) task.run();
  if (scheduler_ != nullptr && task.modelled_ns > 0) clock_.sleep_ns(task.modelled_ns);
  const std::shared_ptr<Completion> completes = std::move(task.completes);
  task = {};  // what the task holds is let go before anybody hears that it is done
  MutexLock lock(mutex_);
  running_ = false;
  if (completes) completes->finish(clock_.now_ns());
  while (!tasks_.empty() && tasks_.front().is_mark()) {
    tasks_.front().completes->finish(clock_.now_ns());
    tasks_.pop_front();
  }
  changed_.notify_all();
}

Status Stream::start_worker_locked() {
  if (scheduler_ != nullptr || worker_.joinable()) return {};
  Result<std::thread> started = start_thread([this] { work(); });
  if (!started.ok()) return started.status();
  worker_ = *std::move(started);
  return {};
}

void Stream::work() {
  for (;;) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (!stopped_ && (tasks_.empty() || held_) && !(closed_ && tasks_.empty())) {
        lock.wait(changed_);
      }
      if (stopped_ || tasks_.empty()) return;
      take_locked(task);
    }
    perform(task);
  }
}

}  // namespace ashlar::sim
