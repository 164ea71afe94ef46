// Who wants to hear of an engine's acts. Entries are put in while the engine holds its locks and
// told without any, one thread at a time: what others put in meanwhile, trackers included, is told
// by the one that is at it. Thread safe.
#pragma once

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "ashlar/oom_notice.h"
#include "ashlar/trace.h"
#include "base/mutex.h"

namespace ashlar {

class Hooks {
 public:
  using OomObserver = std::function<void(const OomNotice&)>;

  void add_tracker(TraceTracker tracker);
  void add_oom_observer(OomObserver observer);
  void add_rejection_observer(OomObserver observer);
  void add_free_memory_callback(std::function<bool()> callback);

  bool has_trackers() const { return has_trackers_.load(std::memory_order_relaxed); }
  void put(const TraceEntry& entry);
  // --- all of these call users' code: with no lock held -----------------------------------------
  void tell() {
    if (has_trackers()) tell_trackers();
  }
  void tell_oom(const OomNotice& notice, bool is_rejection);
  // All of them are asked, whatever the first ones say. True: something was freed.
  bool ask_to_free();

 private:
  void tell_trackers();

  mutable Mutex mutex_;
  std::atomic<bool> has_trackers_{false};
  bool is_telling_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::vector<TraceEntry> entries_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<TraceTracker> trackers_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<OomObserver> oom_observers_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<OomObserver> rejection_observers_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::function<bool()>> callbacks_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
