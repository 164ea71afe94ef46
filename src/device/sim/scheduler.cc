// SPDX-License-Identifier: Apache-2.0
//
// Keeps weak references to streams, so that destroyed streams leave the schedule.
#include "device/sim/scheduler.h"

#include "device/sim/sim_stream.h"

namespace ashlar::sim {

void Scheduler::add(const std::shared_ptr<SimStream>& stream) {
  MutexLock lock(mutex_);
  std::erase_if(streams_, [](const std::weak_ptr<SimStream>& known) { return known.expired(); });
  streams_.push_back(stream);
}

bool Scheduler::step() {
  std::shared_ptr<SimStream> chosen;
  {
    MutexLock lock(mutex_);
    chosen = pick_stream_locked();
    if (chosen == nullptr) return false;
    ++running_count_;
  }
  chosen->run_one();  // without the lock, because a task runs user code
  MutexLock lock(mutex_);
  --running_count_;
  finished_.notify_all();
  return true;
}

void Scheduler::run_random_tasks() {
  uint64_t steps = 0;
  {
    MutexLock lock(mutex_);
    steps = random_.below(3);
  }
  while (steps > 0 && step()) --steps;
}

Status Scheduler::run_until(const Completion& awaited) {
  while (!awaited.is_done()) {
    if (step()) continue;
    MutexLock lock(mutex_);
    // Another thread may be running the awaited task. If no thread runs a task, none can make
    // progress.
    if (running_count_ == 0) {
      if (awaited.is_done()) return {};
      if (resume_streams_paused_until_waited()) continue;
      return Status::device_fault("scheduler", 0,
                                  "deadlock: every stream with work is paused, or waits for work "
                                  "that was dropped or is paused; resume a stream");
    }
    lock.wait(finished_);
  }
  return {};
}

bool Scheduler::resume_streams_paused_until_waited() {
  bool any = false;
  for (const std::weak_ptr<SimStream>& known : streams_) {
    const std::shared_ptr<SimStream> stream = known.lock();
    if (stream != nullptr && stream->resume_if_paused_until_waited()) any = true;
  }
  return any;
}

// Picks a ready stream at random. A stream of priority p has weight p + 1. Returns null if none is
// ready.
std::shared_ptr<SimStream> Scheduler::pick_stream_locked() {
  std::vector<std::shared_ptr<SimStream>> ready;
  for (const std::weak_ptr<SimStream>& known : streams_) {
    std::shared_ptr<SimStream> stream = known.lock();
    if (stream == nullptr || !stream->is_ready()) continue;
    const int weight = stream->priority() + 1;
    for (int i = 0; i < weight; ++i) ready.push_back(stream);
  }
  if (ready.empty()) return nullptr;
  return ready[random_.below(ready.size())];
}

}  // namespace ashlar::sim
