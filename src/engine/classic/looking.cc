// SPDX-License-Identifier: Apache-2.0
//
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
  blocks_.for_each([&](const ClassicBlock* block) {
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

void ClassicEngine::add_tracker(TraceTracker tracker) { hooks_.add_tracker(std::move(tracker)); }

void ClassicEngine::add_oom_observer(std::function<void(const OomNotice&)> observer) {
  hooks_.add_oom_observer(std::move(observer));
}

void ClassicEngine::add_rejection_observer(std::function<void(const OomNotice&)> observer) {
  hooks_.add_rejection_observer(std::move(observer));
}

void ClassicEngine::add_free_memory_callback(std::function<bool()> callback) {
  hooks_.add_free_memory_callback(std::move(callback));
}

bool ClassicEngine::ask_callbacks() {
  if (!hooks_.has_callbacks()) return false;
  Pause pause(*this);
  return hooks_.run_free_memory_callbacks();
}

// Who freed it may not be known; who allocated it is the next best thing to say.
void ClassicEngine::note(TraceAction action, const ClassicBlock& block, size_t bytes) {
  if (!hooks_.is_observed()) return;
  const bool is_free =
      action == TraceAction::kFreeRequested || action == TraceAction::kFreeCompleted;
  const StackId fallback = is_free ? block.stack : block.segment_stack;
  TraceEntry entry = make_entry(action, block, bytes);
  if (const PrivatePool* owner = block.pool->owner()) entry.pool = owner->id;
  entry.stack = caller_stack_ == StackId() ? fallback : caller_stack_;
  hooks_.record(entry);
}

}  // namespace ashlar::classic
