// A queue and its worker.
#include "device/sim/stream.h"

#include "device/sim/scheduler.h"

namespace ashlar::sim {

Stream::Stream(DeviceIndex device, int priority, Clock& clock, Scheduler* scheduler)
    : device_(device), priority_(priority), clock_(clock), scheduler_(scheduler) {}

Stream::~Stream() {
  stop();
  std::thread worker;
  {
    MutexLock lock(mutex_);
    worker.swap(worker_);
  }
  if (worker.joinable()) worker.join();
}

void Stream::push(Task task) {
  MutexLock lock(mutex_);
  push_locked(std::move(task));
}

void Stream::push_locked(Task task) {
  if (stopped_) {
    if (task.completes) task.completes->finish(clock_.now_ns());
    return;
  }
  tasks_.push_back(std::move(task));
  if (scheduler_ == nullptr) start_worker_locked();
  changed_.notify_all();
}

// Looks and pushes under one lock: the worker of a closed stream ends as soon as it finds nothing
// left, and a mark pushed after that would never be reached.
std::shared_ptr<Completion> Stream::mark() {
  auto completion = std::make_shared<Completion>();
  MutexLock lock(mutex_);
  if (tasks_.empty() && !running_) {
    completion->finish(clock_.now_ns());
  } else {
    push_locked({{}, nullptr, completion, 0});
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

void Stream::resume() {
  MutexLock lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

void Stream::close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Stream::stop() {
  std::deque<Task> dropped;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
    changed_.notify_all();
  }
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

// The task stops running and its completion is done in one step: an idle stream has nothing left
// that anybody could be waiting for, and a stream that was waited for is idle.
void Stream::perform(Task& task) {
  if (task.after) task.after->wait();
  if (task.run) task.run();
  if (scheduler_ != nullptr && task.modelled_ns > 0) clock_.sleep_ns(task.modelled_ns);
  const std::shared_ptr<Completion> completes = std::move(task.completes);
  task = {};  // what the task holds is let go before anybody hears that it is done
  MutexLock lock(mutex_);
  running_ = false;
  if (completes) completes->finish(clock_.now_ns());
  changed_.notify_all();
}

void Stream::start_worker_locked() {
  if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
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
