// SPDX-License-Identifier: Apache-2.0
//
// Frees queued segments. A thread is in `flushers_` from when it dequeues segments until the last
// of their sources has returned.
#include "engine/return_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "device/relaxed_capture.h"

namespace ashlar {

void ReturnQueue::add(std::shared_ptr<SegmentSource> source, AddressRange range) {
  MutexLock lock(mutex_);
  entries_.push_back({std::move(source), range});
  is_empty_.store(false, std::memory_order_release);
}

void ReturnQueue::flush(Device& device) {
  const std::thread::id self = std::this_thread::get_id();
  std::vector<Entry> entries;
  {
    MutexLock lock(mutex_);
    entries = std::exchange(entries_, {});
    is_empty_.store(true, std::memory_order_release);
    flushers_.push_back(self);
  }
  {
    // Memory must be returned to the sources even if relaxed capture mode cannot be set.
    const RelaxedCapture relaxed(device);
    for (const Entry& each : entries) {
      if (each.range.bytes != 0) each.source->free(each.range.begin, each.range.bytes);
    }
    entries.clear();  // may release the last reference to a source
  }
  MutexLock lock(mutex_);
  flushers_.erase(std::find(flushers_.begin(), flushers_.end(), self));
  flushed_.notify_all();
}

bool ReturnQueue::is_flushed_by_another_thread() const {
  MutexLock lock(mutex_);
  return must_wait();
}

bool ReturnQueue::must_wait() const {
  const std::thread::id self = std::this_thread::get_id();
  return !flushers_.empty() &&
         std::find(flushers_.begin(), flushers_.end(), self) == flushers_.end();
}

void ReturnQueue::wait_for_other_threads() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  MutexLock lock(mutex_);
  while (must_wait() && lock.wait_until(flushed_, end)) {
  }
}

}  // namespace ashlar
