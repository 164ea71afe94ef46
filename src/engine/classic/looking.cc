// What the engine tells: statistics, what is cached, and the hooks, which run without the lock.
#include <algorithm>

#include "engine/classic/act.h"

namespace ashlar::classic {

void ClassicEngine::set_caching(bool caching) {
  MutexLock lock(mutex_);
  caching_ = caching;
}

bool ClassicEngine::is_caching() const {
  MutexLock lock(mutex_);
  return caching_;
}

size_t ClassicEngine::largest_cached_bytes() const {
  MutexLock lock(mutex_);
  size_t largest_bytes = 0;
  blocks_.for_each([&](const Block* block) {
    if (block->state == BlockState::kFree) largest_bytes = std::max(largest_bytes, block->bytes);
  });
  return largest_bytes;
}

std::vector<ExpandableUse> ClassicEngine::expandable_segments() const {
  MutexLock lock(mutex_);
  std::vector<ExpandableUse> uses;
  for (const auto& segment : expandable_) {
    uses.push_back(
        {segment->stream(), segment->is_small(), segment->range(), segment->mapped_bytes()});
  }
  return uses;
}

AllocatorStats ClassicEngine::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

void ClassicEngine::reset_peak_stats() {
  MutexLock lock(mutex_);
  stats_.reset_peaks();
}

void ClassicEngine::reset_total_stats() {
  MutexLock lock(mutex_);
  stats_.reset_totals();
}

void ClassicEngine::add_tracker(TraceTracker tracker) {
  MutexLock lock(mutex_);
  trackers_.push_back(std::move(tracker));
}

void ClassicEngine::add_oom_observer(std::function<void(const OomNotice&)> observer) {
  MutexLock lock(mutex_);
  oom_observers_.push_back(std::move(observer));
}

void ClassicEngine::add_rejection_observer(std::function<void(const OomNotice&)> observer) {
  MutexLock lock(mutex_);
  rejection_observers_.push_back(std::move(observer));
}

void ClassicEngine::add_free_memory_callback(std::function<bool()> callback) {
  MutexLock lock(mutex_);
  callbacks_.push_back(std::move(callback));
}

// All of them are asked, whatever the first ones say.
bool ClassicEngine::ask_callbacks() {
  if (callbacks_.empty()) return false;
  const std::vector<std::function<bool()>> callbacks = callbacks_;
  bool any_freed = false;
  Pause pause(*this);
  for (const std::function<bool()>& callback : callbacks) any_freed |= callback();
  return any_freed;
}

// Who freed it may not be known; who allocated it is the next best thing to say.
void ClassicEngine::note(TraceAction action, const Block& block, size_t bytes) {
  if (trackers_.empty() && !history_.is_on()) return;
  const PrivatePool* owner = block.pool->owner();
  const bool is_free =
      action == TraceAction::kFreeRequested || action == TraceAction::kFreeCompleted;
  const StackId fallback = is_free ? block.stack : block.segment_stack;
  TraceEntry entry;
  entry.action = action;
  entry.device = device_.properties().index;
  entry.address = block.address;
  entry.bytes = bytes;
  entry.stream = block.stream;
  entry.pool = owner == nullptr ? PoolId{} : owner->id;
  entry.stack = acting_stack_;
  if (entry.stack == StackId()) entry.stack = fallback;
  history_.record(entry);
  if (!trackers_.empty()) entries_.push_back(entry);
}

void ClassicEngine::tell_trackers() {
  MutexLock lock(mutex_);
  if (is_telling_) return;
  is_telling_ = true;
  while (!entries_.empty()) {
    const std::vector<TraceEntry> entries = std::exchange(entries_, {});
    const std::vector<TraceTracker> trackers = trackers_;
    MutexUnlock unlocked(mutex_);
    for (const TraceEntry& entry : entries) {
      for (const TraceTracker& tracker : trackers) tracker(entry);
    }
  }
  is_telling_ = false;
}

}  // namespace ashlar::classic
