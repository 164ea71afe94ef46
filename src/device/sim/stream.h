// SPDX-License-Identifier: Apache-2.0
//
// One stream: tasks in order, and what it takes to run them one at a time. Who runs them is up to
// the machine: the stream's own worker thread, started with its first task, or, with a seed, the
// scheduler (scheduler.h). Thread safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "ashlar/clock.h"
#include "ashlar/status.h"
#include "ashlar/types.h"
#include "base/mutex.h"
#include "device/sim/completion.h"

namespace ashlar::sim {

class Scheduler;

// One piece of work. Dropped tasks finish their completion too, so that nobody waits for ever.
struct Task {
  std::function<void()> run;                // empty: there is only something to wait for or to mark
  std::shared_ptr<const Completion> after;  // null, or what must be done before it starts
  std::shared_ptr<Completion> completes;    // null, or what becomes done with it
  int64_t modelled_ns = 0;                  // how far it moves a seeded machine's clock

  // Nothing to do or to wait for: it is done with what comes before it.
  bool is_mark() const { return !run && after == nullptr && completes != nullptr; }
};

class Stream {
 public:
  // `scheduler` is null when streams have workers. Both outlive the stream.
  Stream(DeviceIndex device, int priority, Clock& clock, Scheduler* scheduler);
  // Drops what is queued and waits for what is running.
  ~Stream();

  DeviceIndex device() const { return device_; }
  int priority() const { return priority_; }

  // kDeviceFault: there is no thread for it; the task was not queued.
  Status push(Task task);
  // The completion of everything pushed so far; done at once if the stream is idle.
  std::shared_ptr<Completion> mark();
  // Nothing queued and nothing running.
  bool idle() const;

  void hold();
  void hold_until_waited();
  void resume();
  // Somebody has to wait: resumes it if it was held until then, and says whether it was.
  bool resume_for_waiting();

  // No more tasks will come, and nobody can hold it; the worker ends when the queue is empty.
  void close();
  // Drops what is queued, and goes on.
  void drop();
  // Drops what is queued; the worker ends after what it is running. The stream stays idle.
  void stop();
  // Waits for that. REQUIRES: stopped, and not called by the worker.
  void join();

  // For the scheduler: whether the first task could start now, and running it if so.
  bool ready() const;
  bool run_one();

 private:
  Status push_locked(Task task) ASHLAR_REQUIRES(mutex_);
  Status start_worker_locked() ASHLAR_REQUIRES(mutex_);
  void finish_dropped(std::deque<Task>& dropped);
  void work();
  void perform(Task& task);
  bool take_locked(Task& task) ASHLAR_REQUIRES(mutex_);

  const DeviceIndex device_;
  const int priority_;
  Clock& clock_;
  Scheduler* const scheduler_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_ ASHLAR_GUARDED_BY(mutex_);
  bool running_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool held_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool held_until_waited_ ASHLAR_GUARDED_BY(mutex_) = false;  // implies held_
  bool closed_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool stopped_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::thread worker_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::sim
