// SPDX-License-Identifier: Apache-2.0
//
// Tracks which streams are live, and which destroyed streams can be reused.
#include "device/gpu/stream_registry.h"

namespace ashlar::gpu {

void StreamRegistry::add(StreamId stream, int priority) {
  MutexLock lock(mutex_);
  priorities_[stream] = priority;
}

bool StreamRegistry::contains(StreamId stream) const {
  MutexLock lock(mutex_);
  return priorities_.contains(stream);
}

bool StreamRegistry::retire(StreamId stream) {
  MutexLock lock(mutex_);
  const auto found = priorities_.find(stream);
  if (found == priorities_.end()) return false;
  retired_.insert(stream);
  by_priority_[found->second].push_back(stream);
  priorities_.erase(found);
  any_retired_.store(true, std::memory_order_release);
  return true;
}

bool StreamRegistry::is_retired(StreamId stream) const {
  if (!any_retired_.load(std::memory_order_acquire)) return false;
  MutexLock lock(mutex_);
  return retired_.contains(stream);
}

// Checks only the first stream: if it is busy, streams that were retired later are usually busy
// too.
std::optional<StreamId> StreamRegistry::reuse_retired(
    int priority, const std::function<bool(StreamId)>& is_idle) {
  StreamId oldest;
  {
    MutexLock lock(mutex_);
    std::deque<StreamId>& waiting = by_priority_[priority];
    if (waiting.empty()) return std::nullopt;
    oldest = waiting.front();
    waiting.pop_front();
  }
  const bool is_free = is_idle(oldest);
  MutexLock lock(mutex_);
  if (!is_free) {
    by_priority_[priority].push_back(oldest);
    return std::nullopt;
  }
  retired_.erase(oldest);
  priorities_[oldest] = priority;
  return oldest;
}

std::vector<StreamId> StreamRegistry::retired() const {
  MutexLock lock(mutex_);
  return {retired_.begin(), retired_.end()};
}

}  // namespace ashlar::gpu
