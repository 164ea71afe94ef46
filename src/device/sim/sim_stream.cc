// SPDX-License-Identifier: Apache-2.0
//
// Implements the task queue and its worker thread.
#include "device/sim/sim_stream.h"

#include "base/thread.h"
#include "device/sim/scheduler.h"

namespace ashlar::sim {

SimStream::SimStream(DeviceIndex device, int priority, Clock& clock, Scheduler* scheduler)
    : device_(device),
      priority_(priority),
      clock_(clock),
      scheduler_(scheduler),
      number_(scheduler == nullptr ? 0 : scheduler->add(*this)) {}

SimStream::~SimStream() {
  stop();
  join();
  if (scheduler_ != nullptr) scheduler_->remove(*this);
}

void SimStream::join() {
  std::thread worker;
  {
    MutexLock lock(mutex_);
    worker.swap(worker_);
  }
  if (worker.joinable()) worker.join();
}

Status SimStream::push(Task task) {
  MutexLock lock(mutex_);
  return push_locked(std::move(task));
}

Status SimStream::push_locked(Task task) {
  if (stopped_) {
    if (task.completes) task.completes->finish(clock_.now_ns());
    return {};
  }
  if (Status started = start_worker_locked(); !started.ok()) return started;
  tasks_.push_back(std::move(task));
  update_schedule_locked();
  changed_.notify_all();
  return {};
}

// Checks whether the stream is idle and pushes the mark under one lock: the worker of a closed
// stream ends as soon as the queue is empty, and would never reach a mark that is pushed
// afterwards.
std::shared_ptr<Completion> SimStream::mark() {
  auto completion = std::make_shared<Completion>();
  MutexLock lock(mutex_);
  if (tasks_.empty() && !running_) {
    completion->finish(clock_.now_ns());
  } else {
    // The push cannot fail, because a busy stream already has its worker.
    (void)push_locked({{}, nullptr, completion, 0}).ok();
  }
  return completion;
}

bool SimStream::is_idle() const {
  MutexLock lock(mutex_);
  return tasks_.empty() && !running_;
}

void SimStream::pause() {
  MutexLock lock(mutex_);
  paused_ = true;
  update_schedule_locked();
}

void SimStream::pause_until_waited() {
  MutexLock lock(mutex_);
  paused_ = paused_until_waited_ = true;
  update_schedule_locked();
}

void SimStream::resume() {
  MutexLock lock(mutex_);
  paused_ = paused_until_waited_ = false;
  update_schedule_locked();
  changed_.notify_all();
}

bool SimStream::resume_if_paused_until_waited() {
  MutexLock lock(mutex_);
  if (!paused_until_waited_) return false;
  paused_ = paused_until_waited_ = false;
  update_schedule_locked();
  changed_.notify_all();
  return true;
}

void SimStream::close() {
  MutexLock lock(mutex_);
  closed_ = true;
  paused_ = paused_until_waited_ = false;
  update_schedule_locked();
  changed_.notify_all();
}

void SimStream::drop() {
  std::deque<Task> dropped;
  {
    MutexLock lock(mutex_);
    dropped.swap(tasks_);
    update_schedule_locked();
  }
  finish_dropped_tasks(dropped);
}

void SimStream::stop() {
  std::deque<Task> dropped;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
    update_schedule_locked();
    changed_.notify_all();
  }
  finish_dropped_tasks(dropped);
}

void SimStream::finish_dropped_tasks(std::deque<Task>& dropped) {
  for (Task& task : dropped) {
    if (task.completes) task.completes->finish(clock_.now_ns());
  }
}

bool SimStream::is_ready() const {
  MutexLock lock(mutex_);
  if (tasks_.empty() || running_ || paused_) return false;
  const Task& first = tasks_.front();
  return first.after == nullptr || first.after->is_done();
}

bool SimStream::run_one() {
  Task task;
  {
    MutexLock lock(mutex_);
    if (running_ || paused_ || !pop_locked(task)) return false;
  }
  run_task(task);
  return true;
}

bool SimStream::pop_locked(Task& task) {
  if (tasks_.empty()) return false;
  task = std::move(tasks_.front());
  tasks_.pop_front();
  running_ = true;
  update_schedule_locked();
  return true;
}

void SimStream::update_schedule_locked() {
  if (scheduler_ == nullptr) return;
  const bool is_runnable = !tasks_.empty() && !running_ && !paused_;
  if (is_runnable != scheduled_as_runnable_) {
    scheduler_->set_runnable(*this, is_runnable);
    scheduled_as_runnable_ = is_runnable;
  }
  if (paused_until_waited_ != scheduled_as_paused_) {
    scheduler_->set_paused_until_waited(*this, paused_until_waited_);
    scheduled_as_paused_ = paused_until_waited_;
  }
}

// Finishes the task's completion and the marks after it under the lock that clears `running_`.
// Therefore an idle stream has no unfinished completions, and a stream is idle as soon as a wait
// for the stream returns.
void SimStream::run_task(Task& task) {
  if (task.after) task.after->wait();
  if (task.run) task.run();
  if (scheduler_ != nullptr && task.modelled_ns > 0) clock_.sleep_ns(task.modelled_ns);
  const std::shared_ptr<Completion> completes = std::move(task.completes);
  task = {};  // destroys the captured state before the completion becomes done
  MutexLock lock(mutex_);
  running_ = false;
  if (completes) completes->finish(clock_.now_ns());
  while (!tasks_.empty() && tasks_.front().is_mark()) {
    tasks_.front().completes->finish(clock_.now_ns());
    tasks_.pop_front();
  }
  update_schedule_locked();
  changed_.notify_all();
}

Status SimStream::start_worker_locked() {
  if (scheduler_ != nullptr || worker_.joinable()) return {};
  Result<std::thread> started = start_thread([this] { run_worker(); });
  if (!started.ok()) return started.status();
  worker_ = *std::move(started);
  return {};
}

void SimStream::run_worker() {
  for (;;) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (!stopped_ && (tasks_.empty() || paused_) && !(closed_ && tasks_.empty())) {
        lock.wait(changed_);
      }
      if (stopped_ || tasks_.empty()) return;
      pop_locked(task);
    }
    run_task(task);
  }
}

}  // namespace ashlar::sim
