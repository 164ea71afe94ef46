// SPDX-License-Identifier: Apache-2.0
//
// Copies of the lists are taken under the lock, and called without it.
#include "engine/hooks.h"

#include "base/text.h"

namespace ashlar {

void Hooks::add_tracker(TraceTracker tracker) {
  MutexLock lock(mutex_);
  trackers_.push_back(std::move(tracker));
  has_trackers_.store(true, std::memory_order_relaxed);
}

void Hooks::add_oom_observer(OomObserver observer) {
  MutexLock lock(mutex_);
  oom_observers_.push_back(std::move(observer));
}

void Hooks::add_rejection_observer(OomObserver observer) {
  MutexLock lock(mutex_);
  rejection_observers_.push_back(std::move(observer));
}

void Hooks::add_free_memory_callback(std::function<bool()> callback) {
  MutexLock lock(mutex_);
  callbacks_.push_back(std::move(callback));
}

Status freed_twice(const Block& block) {
  return Status::invalid_argument(text("the block at ", block.address, " was freed already"));
}

TraceEntry entry_of(TraceAction action, const Block& block, size_t bytes) {
  TraceEntry entry;
  entry.action = action;
  entry.address = block.address;
  entry.bytes = bytes;
  entry.stream = block.stream;
  entry.stack = block.stack;
  return entry;
}

void Hooks::put_untold(TraceEntry entry) {
  entry.device = device_;
  MutexLock lock(mutex_);
  entries_.push_back(entry);
}

void Hooks::put_untold(const History::Act& act) {
  TraceEntry entry;
  entry.action = act.action;
  entry.stack = act.stack;
  entry.address = act.address;
  entry.bytes = act.bytes;
  entry.stream = act.stream;
  entry.pool = act.pool;
  put_untold(entry);
  entry.action = TraceAction::kFreeCompleted;
  if (act.is_whole_free) put_untold(entry);
}

void Hooks::put_said(const TraceEntry& entry, const std::string& said) {
  history_.record(entry, &said);
}

void Hooks::forget_untold() {
  MutexLock lock(mutex_);
  entries_.clear();
}

void Hooks::tell_trackers() {
  MutexLock lock(mutex_);
  if (is_telling_) return;
  is_telling_ = true;
  while (!entries_.empty()) {
    const std::vector<TraceEntry> entries = std::exchange(entries_, {});
    const std::vector<TraceTracker> trackers = trackers_;
    MutexUnlock unlocked(mutex_);
    for (const TraceEntry& entry : entries) {
      for (const TraceTracker& tracker : trackers) tracker(entry);
    }
  }
  is_telling_ = false;
}

void Hooks::tell_oom(const OomNotice& notice, bool is_rejection) {
  std::vector<OomObserver> observers;
  {
    MutexLock lock(mutex_);
    observers = is_rejection ? rejection_observers_ : oom_observers_;
  }
  for (const OomObserver& observer : observers) observer(notice);
}

bool Hooks::has_callbacks() const {
  MutexLock lock(mutex_);
  return !callbacks_.empty();
}

bool Hooks::ask_to_free() {
  std::vector<std::function<bool()>> callbacks;
  {
    MutexLock lock(mutex_);
    callbacks = callbacks_;
  }
  bool any_freed = false;
  for (const std::function<bool()>& callback : callbacks) any_freed |= callback();
  return any_freed;
}

}  // namespace ashlar
