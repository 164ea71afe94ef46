// SPDX-License-Identifier: Apache-2.0
//
// Drawing the next stream.
#include "device/sim/scheduler.h"

#include "device/sim/stream.h"

namespace ashlar::sim {

void Scheduler::add(const std::shared_ptr<Stream>& stream) {
  MutexLock lock(mutex_);
  std::erase_if(streams_, [](const std::weak_ptr<Stream>& known) { return known.expired(); });
  streams_.push_back(stream);
}

bool Scheduler::step() {
  std::shared_ptr<Stream> chosen;
  {
    MutexLock lock(mutex_);
    chosen = draw_locked();
    if (chosen == nullptr) return false;
    ++running_count_;
  }
  chosen->run_one();  // user code: not under our lock
  MutexLock lock(mutex_);
  --running_count_;
  finished_.notify_all();
  return true;
}

void Scheduler::drift() {
  uint64_t steps = 0;
  {
    MutexLock lock(mutex_);
    steps = random_.below(3);
  }
  while (steps > 0 && step()) --steps;
}

Status Scheduler::run_until(const Completion& awaited) {
  while (!awaited.done()) {
    if (step()) continue;
    MutexLock lock(mutex_);
    // Another thread may be running the very task; otherwise nobody is left to make progress.
    if (running_count_ == 0) {
      if (awaited.done()) return {};
      if (resume_held_until_waited()) continue;
      return Status::device_fault("scheduler", 0,
                                  "nothing can run: every stream with work left is held or waits "
                                  "for work that was dropped or is held; resume one");
    }
    lock.wait(finished_);
  }
  return {};
}

bool Scheduler::resume_held_until_waited() {
  bool any = false;
  for (const std::weak_ptr<Stream>& known : streams_) {
    const std::shared_ptr<Stream> stream = known.lock();
    if (stream != nullptr && stream->resume_for_waiting()) any = true;
  }
  return any;
}

// A stream of priority p counts p + 1 times.
std::shared_ptr<Stream> Scheduler::draw_locked() {
  std::vector<std::shared_ptr<Stream>> ready;
  for (const std::weak_ptr<Stream>& known : streams_) {
    std::shared_ptr<Stream> stream = known.lock();
    if (stream == nullptr || !stream->ready()) continue;
    const int weight = stream->priority() + 1;
    for (int i = 0; i < weight; ++i) ready.push_back(stream);
  }
  if (ready.empty()) return nullptr;
  return ready[random_.below(ready.size())];
}

}  // namespace ashlar::sim
