// SPDX-License-Identifier: Apache-2.0
//
// Queues entries and calls user code. Lists of callbacks are copied under the lock, and the
// callbacks are called without the lock.
#include "engine/hooks.h"

#include <new>

#include "base/text.h"

namespace ashlar {

void Hooks::add_tracker(TraceTracker tracker) {
  MutexLock lock(mutex_);
  auto trackers = std::make_shared<std::vector<TraceTracker>>();
  if (trackers_ != nullptr) *trackers = *trackers_;
  trackers->push_back(std::move(tracker));
  entries_.reserve(kReservedEntries);
  spare_entries_.reserve(kReservedEntries);
  trackers_ = std::move(trackers);
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

TraceEntry make_entry(TraceAction action, const Block& block, size_t bytes) {
  TraceEntry entry;
  entry.action = action;
  entry.address = block.address;
  entry.bytes = bytes;
  entry.stream = block.stream;
  entry.stack = block.stack;
  return entry;
}

void Hooks::queue(TraceEntry entry) noexcept {
  entry.device = device_;
  MutexLock lock(mutex_);
  try {
    entries_.push_back(entry);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the entry is omitted
  }
}

void Hooks::queue(const History::Operation& operation) noexcept {
  TraceEntry entry;
  entry.action = operation.action;
  entry.stack = operation.stack;
  entry.address = operation.address;
  entry.bytes = operation.bytes;
  entry.stream = operation.stream;
  entry.pool = operation.pool;
  queue(entry);
  entry.action = TraceAction::kFreeCompleted;
  if (operation.is_immediate_free) queue(entry);
}

void Hooks::record_annotation(const TraceEntry& entry, const std::string& text) {
  history_.record_annotation(entry, text);
}

void Hooks::discard_queued() {
  MutexLock lock(mutex_);
  entries_.clear();
}

void Hooks::notify_trackers() {
  MutexLock lock(mutex_);
  if (is_notifying_) return;
  is_notifying_ = true;
  while (!entries_.empty()) {
    std::vector<TraceEntry> entries = std::move(spare_entries_);
    entries.swap(entries_);
    const std::shared_ptr<const std::vector<TraceTracker>> trackers = trackers_;
    {
      MutexUnlock unlocked(mutex_);
      for (const TraceEntry& entry : entries) {
        for (const TraceTracker& tracker : *trackers) tracker(entry);
      }
    }
    entries.clear();
    spare_entries_ = std::move(entries);
  }
  is_notifying_ = false;
}

void Hooks::notify_oom(const OomNotice& notice, bool is_rejection) {
  std::vector<OomObserver> observers;
  {
    MutexLock lock(mutex_);
    observers = is_rejection ? rejection_observers_ : oom_observers_;
  }
  for (const OomObserver& observer : observers) observer(notice);
}

bool Hooks::has_free_memory_callbacks() const {
  MutexLock lock(mutex_);
  return !callbacks_.empty();
}

bool Hooks::run_free_memory_callbacks() {
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
