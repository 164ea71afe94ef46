// SPDX-License-Identifier: Apache-2.0
//
// Keeps an index of the streams with work, so that the cost of a step does not depend on the number
// of idle or paused streams.
#include "device/sim/scheduler.h"

#include "device/sim/sim_stream.h"

namespace ashlar::sim {

uint64_t Scheduler::add(SimStream& stream) {
  MutexLock lock(index_mutex_);
  const uint64_t number = stream_count_;
  std::map<uint64_t, SimStream*> for_runnable = {{number, &stream}};
  std::map<uint64_t, SimStream*> for_paused = for_runnable;
  runnable_.others.merge(for_runnable);
  paused_until_waited_.others.merge(for_paused);
  ++stream_count_;
  return number;
}

void Scheduler::remove(const SimStream& stream) {
  MutexLock lock(index_mutex_);
  for (StreamIndex* index : {&runnable_, &paused_until_waited_}) {
    index->members.erase(stream.number());
    index->others.erase(stream.number());
  }
}

void Scheduler::set_runnable(SimStream& stream, bool is_runnable) {
  MutexLock lock(index_mutex_);
  update(runnable_, stream, is_runnable);
}

void Scheduler::set_paused_until_waited(SimStream& stream, bool is_paused) {
  MutexLock lock(index_mutex_);
  update(paused_until_waited_, stream, is_paused);
}

void Scheduler::update(StreamIndex& index, const SimStream& stream, bool is_member) {
  auto& from = is_member ? index.others : index.members;
  auto& to = is_member ? index.members : index.others;
  to.insert(from.extract(stream.number()));
}

// Omits streams that are being destroyed, which have no owner any more.
std::vector<std::shared_ptr<SimStream>> Scheduler::streams_of(const StreamIndex& index) {
  examined_count_.fetch_add(index.members.size(), std::memory_order_relaxed);
  std::vector<std::shared_ptr<SimStream>> streams;
  for (const auto& [number, each] : index.members) {
    if (std::shared_ptr<SimStream> stream = each->weak_from_this().lock()) {
      streams.push_back(std::move(stream));
    }
  }
  return streams;
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
    // Another thread may be running the awaited task. If no thread runs a task, no task can make
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
  std::vector<std::shared_ptr<SimStream>> paused;
  {
    MutexLock lock(index_mutex_);
    paused = streams_of(paused_until_waited_);
  }
  bool any = false;
  for (const auto& stream : paused) {
    if (stream->resume_if_paused_until_waited()) any = true;
  }
  return any;
}

// Picks a ready stream at random. A stream of priority p has weight p + 1. Returns null if no
// stream is ready.
std::shared_ptr<SimStream> Scheduler::pick_stream_locked() {
  std::vector<std::shared_ptr<SimStream>> runnable;
  {
    MutexLock lock(index_mutex_);
    runnable = streams_of(runnable_);
  }
  std::vector<std::shared_ptr<SimStream>> ready;
  for (const auto& stream : runnable) {
    if (!stream->is_ready()) continue;
    const int weight = stream->priority() + 1;
    for (int i = 0; i < weight; ++i) ready.push_back(stream);
  }
  if (ready.empty()) return nullptr;
  return ready[random_.below(ready.size())];
}

}  // namespace ashlar::sim
