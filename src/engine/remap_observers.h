// SPDX-License-Identifier: Apache-2.0
//
// Delivers notifications about mapped and unmapped ranges to observers. The engine queues notices
// under its locks and delivers them without any lock, to each observer in queue order. Thread safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ashlar/hooks.h"
#include "base/mutex.h"

namespace ashlar {

class RemapObservers {
 public:
  // Host memory for a number of notices, so that queueing them cannot fail.
  class [[nodiscard]] Reservation {
   public:
    Reservation(Reservation&& other) noexcept
        : observers_(other.observers_), count_(std::exchange(other.count_, 0)) {}
    ~Reservation() {
      if (count_ != 0) observers_.unreserve(count_);
    }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    Reservation& operator=(Reservation&&) = delete;

   private:
    friend class RemapObservers;
    Reservation(RemapObservers& observers, size_t count) : observers_(observers), count_(count) {}

    RemapObservers& observers_;
    size_t count_ = 0;
  };

  // Adds an observer, and queues a notice to the observer for each range in `mapped`, which lists
  // the ranges that are already mapped. REQUIRES: the caller's lock excludes concurrent queueing,
  // so that `mapped` is current.
  void add(RemapObserver observer, const std::vector<AddressRange>& mapped);
  // Whether any observer was added. If not, callers may skip `queue_*` and `notify`.
  bool any() const { return has_any_.load(std::memory_order_relaxed); }

  // Reserves host memory for `count` notices. Throws std::bad_alloc, without effect, if host memory
  // is exhausted.
  Reservation reserve(size_t count);
  // REQUIRES: a reservation, which covers the notices that are queued during its lifetime.
  void queue_mapped(AddressRange range) noexcept { queue({true, range}); }
  void queue_unmapping(AddressRange range) noexcept { queue({false, range}); }
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
  void reserve_locked(size_t count, size_t listener_count) ASHLAR_REQUIRES(mutex_);
  void unreserve(size_t count) noexcept;
  void queue(const Notice& notice) noexcept;
  void deliver();
  Listener* next_listener() ASHLAR_REQUIRES(mutex_);

  // Relaxed: the engine's lock orders additions and notices.
  std::atomic<bool> has_any_{false};
  Mutex mutex_;
  std::condition_variable notified_;
  std::thread::id notifying_thread_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Listener>> listeners_ ASHLAR_GUARDED_BY(mutex_);  // only grows
  // Nodes for the reserved notices: at least `reserved_count_` for each listener.
  std::list<Notice> spare_notices_ ASHLAR_GUARDED_BY(mutex_);
  size_t reserved_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar
