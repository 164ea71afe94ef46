// SPDX-License-Identifier: Apache-2.0
//
// Lists the mutexes that have been locked since the list was last taken, so that the owner of
// thousands of mutexes needs to visit only those whose data may have changed.
#pragma once

#include <atomic>

namespace ashlar {

class LockWatchList;

// Registered with a mutex (BiasedMutex::watch). The next acquisition removes the watch from the
// mutex and adds it to the list. Until it is taken from that list, the watch must not be registered
// again.
struct LockWatch {
  LockWatchList* list = nullptr;
  LockWatch* next = nullptr;  // in the list of the mutex, then in `list`
};

// The watches whose mutexes have been locked. Thread safe.
class LockWatchList {
 public:
  void add(LockWatch& watch) {
    watch.next = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(watch.next, &watch, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
  }
  // Removes all watches. Returns the first one, or null; `next` links them.
  LockWatch* take_all() { return first_.exchange(nullptr, std::memory_order_acquire); }
  bool empty() const { return first_.load(std::memory_order_acquire) == nullptr; }

 private:
  std::atomic<LockWatch*> first_{nullptr};
};

}  // namespace ashlar
