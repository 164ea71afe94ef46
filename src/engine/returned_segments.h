// SPDX-License-Identifier: Apache-2.0
//
// Segments that are no longer an engine's, on their way to the sources they came from. A source is
// code of others and hears of them without the engine's lock. Meanwhile their memory is nobody's:
// who finds the device full first waits for what is on its way. Thread safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

#include "ashlar/device.h"
#include "ashlar/pool.h"
#include "base/mutex.h"

namespace ashlar {

class ReturnedSegments {
 public:
  // Without a range: a source whose pool is gone, and which may end with this.
  void add(std::shared_ptr<SegmentSource> source, AddressRange range = {});
  // Asked at the end of every act, so without a lock.
  bool empty() const { return is_empty_.load(std::memory_order_acquire); }
  // What was added so far, in a way that breaks no capture on `device`. Call without locks: sources
  // may do anything, also come back to here.
  void give_back(Device& device);
  // Until what other threads are giving back has arrived, or a second is over: a source may wait
  // for something that our caller holds. A thread that is giving back itself does not wait.
  void wait_for_others();
  bool are_others_giving() const;

 private:
  struct Segment {
    std::shared_ptr<SegmentSource> source;  // shared with its pool, which may be gone first
    AddressRange range;
  };
  bool must_wait() const ASHLAR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Segment> segments_ ASHLAR_GUARDED_BY(mutex_);
  std::atomic<bool> is_empty_ = true;
  std::vector<std::thread::id> givers_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
