// SPDX-License-Identifier: Apache-2.0
//
// One simulated stream: a queue of tasks that run in order, one at a time. Without a seed, a worker
// thread of the stream, which starts with the first task, runs the tasks. With a seed, the
// scheduler runs them inside device calls (scheduler.h). Thread safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "ashlar/clock.h"
#include "ashlar/status.h"
#include "ashlar/types.h"
#include "base/mutex.h"

namespace ashlar::sim {

class Scheduler;

// Becomes done when the work that it represents finishes, and stays done. Shared by the task, the
// events that were recorded for the work, and the threads that wait for it.
class Completion {
 public:
  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // REQUIRES: is_done().
  int64_t finished_at_ns() const { return finished_at_ns_; }

  // Makes the completion done. The release pairs with the acquire in is_done() and wait(): a thread
  // that observes the completion done also observes the results of the work and the time.
  void finish(int64_t now_ns) {
    finished_at_ns_ = now_ns;
    done_.store(true, std::memory_order_release);
    done_.notify_all();
  }
  void wait() const { done_.wait(false, std::memory_order_acquire); }

 private:
  int64_t finished_at_ns_ = 0;
  std::atomic<bool> done_{false};
};

// One piece of work. Dropping a task finishes its completion, so that no thread waits forever.
struct Task {
  std::function<void()> run;                // the work; may be empty
  std::shared_ptr<const Completion> after;  // must be done before the task starts; may be null
  std::shared_ptr<Completion> completes;    // becomes done with the task; may be null
  int64_t modelled_ns = 0;                  // advances the clock of a seeded machine

  // Whether the task only marks a position in the queue: its completion becomes done when all tasks
  // before it are done.
  bool is_mark() const { return !run && after == nullptr && completes != nullptr; }
};

class SimStream : public std::enable_shared_from_this<SimStream> {
 public:
  // `scheduler` is null if streams have worker threads. REQUIRES: `clock` and `scheduler` outlive
  // the stream.
  SimStream(DeviceIndex device, int priority, Clock& clock, Scheduler* scheduler);
  // Drops queued tasks and waits for the running task.
  ~SimStream();

  DeviceIndex device() const { return device_; }
  int priority() const { return priority_; }
  uint64_t number() const { return number_; }  // unique in the scheduler, in order of creation

  // Queues a task. kDeviceFault: the worker thread could not be started; the task was not queued.
  Status push(Task task);
  // Returns the completion of all tasks pushed so far. The completion is already done if the stream
  // is idle.
  std::shared_ptr<Completion> mark();
  // Returns whether no task is queued or running.
  bool is_idle() const;

  void pause();
  void pause_until_waited();
  void resume();
  // Resumes the stream if it was paused by pause_until_waited. Returns whether the stream was
  // resumed.
  bool resume_if_paused_until_waited();

  // Announces that no more tasks follow. Resumes the stream; the worker ends when the queue is
  // empty.
  void close();
  // Drops queued tasks. The stream remains usable.
  void drop();
  // Drops queued tasks, and tasks that are pushed later. The worker ends after the running task.
  void stop();
  // Waits for the worker to end. REQUIRES: stop() was called; the caller is not the worker itself.
  void join();

  // Returns whether the first task could start now. Called by the scheduler.
  bool is_ready() const;
  // Runs the first task if it can start now. Called by the scheduler.
  bool run_one();

 private:
  Status push_locked(Task task) ASHLAR_REQUIRES(mutex_);
  Status start_worker_locked() ASHLAR_REQUIRES(mutex_);
  void finish_dropped_tasks(std::deque<Task>& dropped);
  void run_worker();
  void run_task(Task& task);
  bool pop_locked(Task& task) ASHLAR_REQUIRES(mutex_);
  // Reports to the scheduler whether the stream is runnable, and whether it is paused until waited.
  // Call after every change of tasks_, running_, paused_ and paused_until_waited_.
  void update_schedule_locked() ASHLAR_REQUIRES(mutex_);

  const DeviceIndex device_;
  const int priority_;
  Clock& clock_;
  Scheduler* const scheduler_;
  const uint64_t number_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_ ASHLAR_GUARDED_BY(mutex_);
  bool running_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool paused_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool paused_until_waited_ ASHLAR_GUARDED_BY(mutex_) = false;  // true only if paused_ is true
  // The states that were last reported to the scheduler.
  bool scheduled_as_runnable_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool scheduled_as_paused_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool closed_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool stopped_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::thread worker_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::sim
