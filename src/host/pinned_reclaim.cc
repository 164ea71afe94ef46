// SPDX-License-Identifier: Apache-2.0
//
// Moves freed blocks through their states: kept for a graph, pending, cached, or released to the
// host. Updates the statistics accordingly.
#include "base/text.h"
#include "host/pinned_allocator.h"

namespace ashlar {

bool PinnedAllocator::finish_free(PinnedBlock* block) {
  const auto bytes = static_cast<int64_t>(block->bytes());
  if (!block->captures.empty()) {
    block->state = PinnedState::kInGraph;
    stats_.graph_blocks.increase(1);
    stats_.graph_bytes.increase(bytes);
    return false;
  }
  if (block->uses.empty()) {
    make_free(block);
    return false;
  }
  block->state = PinnedState::kPending;
  stats_.pending_blocks.increase(1);
  stats_.pending_bytes.increase(bytes);
  return true;
}

void PinnedAllocator::make_free(PinnedBlock* block) {
  const auto bytes = static_cast<int64_t>(block->bytes());
  if (block->state == PinnedState::kPending) {
    stats_.pending_blocks.decrease(1);
    stats_.pending_bytes.decrease(bytes);
  }
  stats_.active_requests.decrease(1);
  stats_.active_bytes.decrease(bytes);
  stats_.requested_bytes.decrease(static_cast<int64_t>(block->requested_bytes));
  block->requested_bytes = 0;
  block->state = PinnedState::kFree;
  // Parts of the reserve segment cannot be released, so they are cached regardless of size.
  if (block->memory.origin == PinnedOrigin::kReserved ||
      size_policy_.is_cacheable(block->bytes())) {
    block->pool->cache.insert(block);
  } else {
    to_release_.push_back(block);
  }
}

void PinnedAllocator::add_pending(PinnedBlockList& pending) {
  if (pending.empty()) return;
  Status failure;
  while (PinnedBlock* block = pending.pop_front()) {
    const Status added = pending_.add(block);
    if (failure.ok()) failure = added;
  }
  if (!failure.ok()) {
    MutexLock lock(mutex_);
    defer_error(failure);
  }
  if (poller_ != nullptr && !poller_->wake()) collect_finished(IfBusy::kReturn);
}

bool PinnedAllocator::collect_finished(IfBusy if_busy) {
  if (if_busy == IfBusy::kReturn && pending_.empty()) return false;
  if (!begin_collecting(if_busy)) return true;
  PinnedBlockList finished;
  const Status failure = pending_.collect(finished);
  const bool more = !pending_.empty();
  end_collecting(finished, failure);
  return more;
}

void PinnedAllocator::collect_stranded() {
  begin_collecting(IfBusy::kWait);
  PinnedBlockList finished;
  const Status failure = pending_.wait_for_stranded(finished);
  end_collecting(finished, failure);
}

bool PinnedAllocator::begin_collecting(IfBusy if_busy) {
  MutexLock lock(mutex_);
  while (collecting_) {
    if (if_busy == IfBusy::kReturn) return false;
    lock.wait(collected_);
  }
  collecting_ = true;
  return true;
}

void PinnedAllocator::end_collecting(PinnedBlockList& finished, const Status& failure) {
  {
    MutexLock lock(mutex_);
    while (PinnedBlock* block = finished.pop_front()) make_free(block);
    if (!failure.ok()) defer_error(failure);
    collecting_ = false;
    collected_.notify_all();
  }
  release_queued();
}

Status PinnedAllocator::trim() {
  collect_finished(IfBusy::kWait);
  collect_stranded();
  release_cached();
  MutexLock lock(mutex_);
  return std::exchange(deferred_error_, {});
}

void PinnedAllocator::release_cached() {
  {
    MutexLock lock(mutex_);
    pools_.take_releasable(to_release_);
  }
  release_queued();
  MutexLock lock(mutex_);
  pools_.erase_empty_pools();
}

// Removes a block from the address table before releasing its memory, because the host may hand out
// the same address immediately. On failure the memory is unchanged, so the block is cached again.
void PinnedAllocator::release_queued() {
  MutexLock lock(mutex_);
  while (PinnedBlock* block = to_release_.pop_back()) {
    auto entry = by_address_.extract(block->memory.begin);
    Status released;
    int64_t took_ns = 0;
    {
      MutexUnlock unlocked(mutex_);
      const int64_t began_ns = clock_.now_ns();
      released = source_.release(block->memory);
      took_ns = clock_.now_ns() - began_ns;
    }
    if (!released.ok()) {
      defer_error(released);
      by_address_.insert(std::move(entry));
      block->pool->cache.insert(block);
      continue;
    }
    ++stats_.host_frees;
    stats_.host_free_time.record(took_ns);
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(static_cast<int64_t>(block->bytes()));
    block->memory = {};
    --std::exchange(block->pool, nullptr)->block_count;
    block->state = PinnedState::kNone;
    unused_.push_back(block);
  }
}

void PinnedAllocator::defer_error(const Status& failure) {
  ++stats_.deferred_errors;
  if (deferred_error_.ok()) deferred_error_ = failure;
}

HostStats PinnedAllocator::stats() const {
  MutexLock lock(mutex_);
  HostStats stats = stats_;
  stats.reserve_bytes = source_.reserve_bytes();
  stats.reserve_used_bytes = source_.reserve_used_bytes();
  for (size_t index = 0; index < class_counts_.size(); ++index) {
    if (class_counts_[index] == 0) continue;
    stats.size_classes.push_back({size_policy_.class_bytes(index), class_counts_[index]});
  }
  return stats;
}

void PinnedAllocator::reset_peak_stats() {
  MutexLock lock(mutex_);
  stats_.reset_peaks();
}

void PinnedAllocator::reset_total_stats() {
  MutexLock lock(mutex_);
  stats_.reset_totals();
  class_counts_.assign(class_counts_.size(), 0);
}

Status PinnedAllocator::validate() const {
  MutexLock lock(mutex_);
  HostStats sums;
  size_t free_count = 0;
  size_t memory_count = 0;
  for (const PinnedBlock& block : blocks_) {
    const auto bytes = static_cast<int64_t>(block.bytes());
    const bool is_pending = block.state == PinnedState::kPending;
    const bool is_in_graph = block.state == PinnedState::kInGraph;
    if (block.state == PinnedState::kNone) continue;
    ++memory_count;
    free_count += block.state == PinnedState::kFree ? 1 : 0;
    sums.allocated_bytes.current += bytes;
    sums.active_requests.current += block.is_active() ? 1 : 0;
    sums.active_bytes.current += block.is_active() ? bytes : 0;
    sums.requested_bytes.current += static_cast<int64_t>(block.requested_bytes);
    sums.pending_bytes.current += is_pending ? bytes : 0;
    sums.graph_bytes.current += is_in_graph ? bytes : 0;
    const auto found = by_address_.find(block.memory.begin);
    if (found == by_address_.end() || found->second != &block) {
      return Status::invalid_argument(
          text("the block at ", block.memory.begin, " is not in the table"));
    }
    if (is_in_graph == block.captures.empty() && block.state != PinnedState::kAllocated) {
      return Status::invalid_argument(
          text("the block at ", block.memory.begin, " has the wrong state for its captures"));
    }
  }
  const bool right = sums.allocated_bytes.current == stats_.allocated_bytes.current &&
                     sums.active_requests.current == stats_.active_requests.current &&
                     sums.active_bytes.current == stats_.active_bytes.current &&
                     sums.requested_bytes.current == stats_.requested_bytes.current &&
                     sums.pending_bytes.current == stats_.pending_bytes.current &&
                     sums.graph_bytes.current == stats_.graph_bytes.current;
  if (!right) return Status::invalid_argument("the counters are not the sums over the blocks");
  if (free_count != pools_.cached_count() || memory_count != by_address_.size()) {
    return Status::invalid_argument("the cache or the address table does not match the blocks");
  }
  return {};
}

}  // namespace ashlar
