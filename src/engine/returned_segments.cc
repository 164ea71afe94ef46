// SPDX-License-Identifier: Apache-2.0
//
// Who gives back is written down from taking the segments to the last source's return.
#include "engine/returned_segments.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "device/relaxed_capture.h"

namespace ashlar {

void ReturnedSegments::add(std::shared_ptr<SegmentSource> source, AddressRange range) {
  MutexLock lock(mutex_);
  segments_.push_back({std::move(source), range});
  is_empty_.store(false, std::memory_order_release);
}

void ReturnedSegments::give_back(Device& device) {
  const std::thread::id self = std::this_thread::get_id();
  std::vector<Segment> leaving;
  {
    MutexLock lock(mutex_);
    leaving = std::exchange(segments_, {});
    is_empty_.store(true, std::memory_order_release);
    givers_.push_back(self);
  }
  {
    // If it is not granted, the sources still have to hear of them.
    const RelaxedCapture relaxed(device);
    for (const Segment& each : leaving) {
      if (each.range.bytes != 0) each.source->free(each.range.begin, each.range.bytes);
    }
    leaving.clear();  // the last to know a source may be us
  }
  MutexLock lock(mutex_);
  givers_.erase(std::find(givers_.begin(), givers_.end(), self));
  arrived_.notify_all();
}

bool ReturnedSegments::are_others_giving() const {
  MutexLock lock(mutex_);
  return must_wait();
}

bool ReturnedSegments::must_wait() const {
  const std::thread::id self = std::this_thread::get_id();
  return !givers_.empty() && std::find(givers_.begin(), givers_.end(), self) == givers_.end();
}

void ReturnedSegments::wait_for_others() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  MutexLock lock(mutex_);
  while (must_wait() && lock.wait_until(arrived_, end)) {
  }
}

}  // namespace ashlar
