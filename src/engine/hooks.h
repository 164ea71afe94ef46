// SPDX-License-Identifier: Apache-2.0
//
// Who hears of an engine's acts, and who is asked about them: the history, trackers, observers and
// callbacks. Entries are put in while the engine holds the lock that orders its acts, and told to
// trackers without any, one thread at a time: what others put in meanwhile, trackers included, is
// told by the one that is at it. Thread safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/oom_notice.h"
#include "ashlar/trace.h"
#include "base/mutex.h"
#include "engine/block.h"
#include "observe/history.h"

namespace ashlar {

// What every act on a block says of it, and that whoever allocated it did it. The engine adds the
// pool, and puts whoever really did it where that is known.
TraceEntry entry_of(TraceAction action, const Block& block, size_t bytes);

class Hooks {
 public:
  using OomObserver = std::function<void(const OomNotice&)>;

  // The engine's history, which outlives this, and the device that its entries name.
  Hooks(History& history, DeviceIndex device) : history_(history), device_(device) {}

  void add_tracker(TraceTracker tracker);
  void add_oom_observer(OomObserver observer);
  void add_rejection_observer(OomObserver observer);
  void add_free_memory_callback(std::function<bool()> callback);

  // Whether there is any sense in making entries.
  bool wants_entries() const { return history_.is_on() || has_trackers(); }
  bool has_trackers() const { return has_trackers_.load(std::memory_order_relaxed); }
  // For the history at once, and for the trackers with the next `tell`.
  void put(const TraceEntry& entry) {
    history_.record(entry);
    if (has_trackers()) put_untold(entry);
  }
  // The same without an entry, where nobody but the history asks for one.
  void put(const History::Act& act) {
    history_.record(act);
    if (has_trackers()) put_untold(act);
  }
  // What a user said of a block: for the history alone.
  void put_said(const TraceEntry& entry, const std::string& said);
  // Trackers never hear of what was put in so far and not told.
  void forget_untold();
  // Whether there is anybody to ask to free memory; if not, an engine need not unlock for it.
  bool has_callbacks() const;

  // --- users' code is called: REQUIRES that the caller holds no lock
  // ------------------------------
  void tell() {
    if (has_trackers()) tell_trackers();
  }
  void tell_oom(const OomNotice& notice, bool is_rejection);
  // All of them are asked, whatever the first ones say. True: something was freed.
  bool ask_to_free();

 private:
  void tell_trackers();
  void put_untold(TraceEntry entry);
  void put_untold(const History::Act& act);

  History& history_;
  const DeviceIndex device_;
  // Relaxed: it says whether to look at the list, which is read under the lock. An act at the very
  // moment at which the first tracker comes may go untold.
  std::atomic<bool> has_trackers_{false};

  mutable Mutex mutex_;
  bool is_telling_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::vector<TraceEntry> entries_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<TraceTracker> trackers_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<OomObserver> oom_observers_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<OomObserver> rejection_observers_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::function<bool()>> callbacks_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
