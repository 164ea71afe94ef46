// SPDX-License-Identifier: Apache-2.0
//
// Dispatches an engine's operations to the history, trackers, observers and callbacks. The engine
// records entries under the lock that orders its operations. Trackers are called later, without any
// lock, by one thread at a time; that thread also delivers entries that trackers or other threads
// record meanwhile. Thread safe.
//
// `record` never fails. If host memory is exhausted, the history omits the entry, and trackers may
// miss the entry if at least kReservedEntries earlier entries are still waiting for delivery.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/hooks.h"
#include "ashlar/trace.h"
#include "base/mutex.h"
#include "engine/block.h"
#include "observe/history.h"

namespace ashlar {

// Returns an entry for an operation on a block, with the stack that allocated the block. The engine
// adds the pool and, if known, the stack of the operation itself.
TraceEntry make_entry(TraceAction action, const Block& block, size_t bytes);

class Hooks {
 public:
  // The number of entries that can wait for delivery to trackers without allocating memory.
  static constexpr size_t kReservedEntries = 1024;
  using OomObserver = std::function<void(const OomNotice&)>;

  // `history` outlives this object. Entries for trackers name `device`.
  Hooks(History& history, DeviceIndex device) : history_(history), device_(device) {}

  void add_tracker(TraceTracker tracker);
  void add_oom_observer(OomObserver observer);
  void add_rejection_observer(OomObserver observer);
  void add_free_memory_callback(std::function<bool()> callback);

  // Whether entries reach the history or a tracker.
  bool is_observed() const { return history_.is_on() || has_trackers(); }
  bool has_trackers() const { return has_trackers_.load(std::memory_order_relaxed); }
  // Records into the history now, and queues the entry for trackers until the next `notify`.
  void record(const TraceEntry& entry) noexcept {
    history_.record(entry);
    if (has_trackers()) queue(entry);
  }
  // Records an operation in compact form. Builds a TraceEntry only if there are trackers.
  void record(const History::Operation& operation) noexcept {
    history_.record(operation);
    if (has_trackers()) queue(operation);
  }
  // Records a user's annotation of a block. Trackers do not receive it. Throws std::bad_alloc if
  // the history cannot store the text.
  void record_annotation(const TraceEntry& entry, const std::string& text);
  // Drops the entries that trackers have not received yet.
  void discard_queued();
  // Whether there are free-memory callbacks. If not, the engine need not release its lock to run
  // them.
  bool has_free_memory_callbacks() const;

  // The functions below call user code. REQUIRES: the caller holds no lock.

  // Delivers queued entries to the trackers.
  void notify() noexcept {
    if (has_trackers()) notify_trackers();
  }
  void notify_oom(const OomNotice& notice, bool is_rejection);
  // Runs all callbacks. Returns whether any of them freed memory.
  bool run_free_memory_callbacks();

 private:
  void notify_trackers();
  void queue(TraceEntry entry) noexcept;
  void queue(const History::Operation& operation) noexcept;

  History& history_;
  const DeviceIndex device_;
  // Whether `trackers_` is not empty. Read without the lock and with relaxed order, so operations
  // that race with the first add_tracker may not be delivered.
  std::atomic<bool> has_trackers_{false};

  mutable Mutex mutex_;
  bool is_notifying_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::vector<TraceEntry> entries_ ASHLAR_GUARDED_BY(mutex_);
  // Empty between deliveries. A delivery swaps it with `entries_`, so that both vectors keep their
  // capacity.
  std::vector<TraceEntry> spare_entries_ ASHLAR_GUARDED_BY(mutex_);
  // Immutable; shared with deliveries in progress. Null if there are no trackers.
  std::shared_ptr<const std::vector<TraceTracker>> trackers_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<OomObserver> oom_observers_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<OomObserver> rejection_observers_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::function<bool()>> callbacks_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
