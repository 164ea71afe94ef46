// SPDX-License-Identifier: Apache-2.0
//
// Delivers notifications about mapped and unmapped ranges to observers. The engine queues notices
// under its locks and delivers them without any lock, to each observer in queue order. Thread safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "ashlar/hooks.h"
#include "base/mutex.h"

namespace ashlar {

class RemapObservers {
 public:
  // Adds an observer and queues a notice for it for each range in `mapped`, the ranges that are
  // already mapped. REQUIRES: the caller's lock excludes concurrent queueing, so that `mapped` is
  // current.
  void add(RemapObserver observer, const std::vector<AddressRange>& mapped);
  // Whether any observer was added. If not, callers may skip `queue_*` and `notify`.
  bool any() const { return has_any_.load(std::memory_order_relaxed); }

  // Throw std::bad_alloc, without queueing for any observer, if host memory is exhausted.
  void queue_mapped(AddressRange range) { queue({true, range}); }
  void queue_unmapping(AddressRange range) { queue({false, range}); }
  // Delivers all notices that were queued before the call, or waits until another thread has. A
  // call from inside an observer does not wait for the notice that the observer is handling.
  // REQUIRES: the caller holds no lock, because this calls user code.
  void notify() {
    if (any()) deliver();
  }
  // Whether the caller runs inside an observer.
  bool is_notifying_thread();

 private:
  struct Notice {
    bool is_mapped = false;
    AddressRange range{};
  };
  struct Listener {
    RemapObserver observer;
    std::list<Notice> notices;  // not delivered yet
  };
  void queue(const Notice& notice);
  void deliver();
  Listener* next_listener() ASHLAR_REQUIRES(mutex_);

  // Relaxed: the engine's lock orders additions and notices.
  std::atomic<bool> has_any_{false};
  Mutex mutex_;
  std::condition_variable notified_;
  std::thread::id notifying_thread_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Listener>> listeners_ ASHLAR_GUARDED_BY(mutex_);  // only grows
};

}  // namespace ashlar
