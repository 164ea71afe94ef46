// Who gives back is written down from taking the segments to the last source's return.
#include "engine/returned_segments.h"

#include <algorithm>
#include <utility>

namespace ashlar {

void ReturnedSegments::add(std::shared_ptr<SegmentSource> source, AddressRange range) {
  MutexLock lock(mutex_);
  segments_.push_back({std::move(source), range});
  is_empty_.store(false, std::memory_order_release);
}

void ReturnedSegments::give_back() {
  const std::thread::id self = std::this_thread::get_id();
  std::vector<Segment> leaving;
  {
    MutexLock lock(mutex_);
    leaving = std::exchange(segments_, {});
    is_empty_.store(true, std::memory_order_release);
    givers_.push_back(self);
  }
  for (const Segment& each : leaving) {
    if (each.range.bytes != 0) each.source->free(each.range.begin, each.range.bytes);
  }
  leaving.clear();  // the last to know a source may be us
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

void ReturnedSegments::wait_for_others(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  MutexLock lock(mutex_);
  while (must_wait() && lock.wait_until(arrived_, end)) {
  }
}

}  // namespace ashlar
