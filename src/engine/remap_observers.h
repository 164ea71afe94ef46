// SPDX-License-Identifier: Apache-2.0
//
// Who is told what is mapped and what will be unmapped. Notices are put in while the engine holds
// its locks, and told without any: to each observer in the order they were put in. Thread safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "ashlar/remap.h"
#include "base/mutex.h"

namespace ashlar {

class RemapObservers {
 public:
  // REQUIRES: whoever puts notices in is locked out, so that `mapped` is what is mapped now.
  void add(RemapObserver observer, const std::vector<AddressRange>& mapped);
  // False: nothing needs to be put in, nor told.
  bool any() const { return has_any_.load(std::memory_order_relaxed); }

  void put_mapped(AddressRange range) { put({true, range}); }
  void put_unmapping(AddressRange range) { put({false, range}); }
  // Calls users' code, with no lock held. When it returns, all that was put in before has been
  // told, by whichever thread; except what this thread is telling, if it was called from there.
  void tell() {
    if (any()) tell_all();
  }
  // Whether the calling thread is an observer's.
  bool is_telling_here();

 private:
  struct Notice {
    bool is_mapped = false;
    AddressRange range{};
  };
  struct Listener {
    RemapObserver observer;
    std::deque<Notice> notices;  // not told yet
  };
  void put(const Notice& notice);
  void tell_all();
  Listener* next_listener() ASHLAR_REQUIRES(mutex_);

  // Relaxed: an observer that is being added sees what the engine's lock lets it see.
  std::atomic<bool> has_any_{false};
  Mutex mutex_;
  std::condition_variable told_;
  std::thread::id teller_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Listener>> listeners_ ASHLAR_GUARDED_BY(mutex_);  // never fewer
};

}  // namespace ashlar
