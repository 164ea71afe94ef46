// SPDX-License-Identifier: Apache-2.0
//
// Allocates buffers from the free list, adds a segment if no free range fits, and logs calls.
#include "symm/memory/segment_pool.h"

#include <algorithm>

#include "base/align.h"
#include "base/text.h"

namespace ashlar::symm {
namespace {

// Returns the size of the range that a buffer occupies. Buffers of a pool have the same alignment
// as those of heap blocks.
size_t rounded_bytes(size_t bytes) {
  return align_up(std::max<size_t>(bytes, 1), kBufferAlignment);
}

}  // namespace

SegmentPool::SegmentPool(RankHeap& heap, Options options)
    : heap_(heap), options_(std::move(options)) {}

SegmentPool::~SegmentPool() {
  MutexLock lock(mutex_);
  while (!segments_.empty()) free_segment_locked(segments_.begin()->first);
}

Result<std::byte*> SegmentPool::allocate(size_t bytes) {
  if (bytes > kMaxBlockBytes) {
    return Status::out_of_memory(text("allocation of ", bytes, " bytes from pool ", options_.name,
                                      ": the limit is ", kMaxBlockBytes));
  }
  MutexLock lock(mutex_);
  std::optional<SegmentFreeList::Position> position = free_list_.allocate(rounded_bytes(bytes));
  if (!position) {
    if (Status grown = grow_locked(rounded_bytes(bytes)); !grown.ok()) {
      // Logged, so that the next rendezvous reports which ranks could not allocate.
      log_->append({PoolCall::Kind::kAllocateFailed, bytes});
      return grown;
    }
    position = free_list_.allocate(rounded_bytes(bytes));
  }
  const PoolCallLog::State state = log_->append({PoolCall::Kind::kAllocate, bytes});
  PoolBuffer pool_buffer;
  pool_buffer.ordinal = next_ordinal_++;
  pool_buffer.call = state.number;
  pool_buffer.sequence_hash = state.hash;
  pool_buffer.segment = position->segment;
  pool_buffer.offset = position->offset;
  pool_buffer.bytes = bytes;
  const Segment& segment = segments_.at(position->segment);
  segment.segment_buffers->add(pool_buffer);
  ++buffer_count_;
  return segment.buffer + position->offset;
}

// Each pool is a scope of its own, so that its segments are numbered separately from other blocks.
Status SegmentPool::grow_locked(size_t bytes) {
  Segment segment;
  segment.bytes = std::max(bytes, rounded_bytes(options_.segment_bytes));
  segment.segment_buffers = std::make_shared<SegmentBuffers>(log_);
  AllocationOptions options;
  options.group = "pool " + options_.name;
  options.segment_buffers = segment.segment_buffers;
  const Result<std::byte*> buffer = heap_.allocate(segment.bytes, options);
  if (!buffer.ok()) return buffer.status();
  segment.buffer = *buffer;
  free_list_.add_segment(next_segment_, segment.bytes);
  segments_.emplace(next_segment_++, std::move(segment));
  return {};
}

Status SegmentPool::free(const void* pointer) {
  MutexLock lock(mutex_);
  const auto* at = static_cast<const std::byte*>(pointer);
  const std::optional<RankHeap::BufferLocation> found = heap_.find(pointer);
  const PoolBuffer* pool_buffer = found ? found->pool_buffer.get() : nullptr;
  const auto segment =
      pool_buffer == nullptr ? segments_.end() : segments_.find(pool_buffer->segment);
  const bool is_ours = segment != segments_.end() &&
                       segment->second.segment_buffers == found->block->segment_buffers &&
                       segment->second.buffer + pool_buffer->offset == at;
  if (!is_ours) {
    return Status::invalid_argument(
        text(pointer, " is not the beginning of a buffer of pool ", options_.name));
  }
  log_->append({PoolCall::Kind::kFree, pool_buffer->ordinal});
  segment->second.segment_buffers->remove(pool_buffer->offset);
  free_list_.release({pool_buffer->segment, pool_buffer->offset},
                     rounded_bytes(pool_buffer->bytes));
  --buffer_count_;
  return {};
}

void SegmentPool::trim() {
  MutexLock lock(mutex_);
  log_->append({PoolCall::Kind::kTrim, 0});
  for (const uint64_t number : free_list_.remove_empty_segments()) free_segment_locked(number);
}

void SegmentPool::free_segment_locked(uint64_t number) {
  const auto segment = segments_.find(number);
  // Cannot fail: the pointer is the beginning of a live block.
  (void)heap_.free(segment->second.buffer).ok();
  segments_.erase(segment);
}

SegmentPool::Stats SegmentPool::stats() {
  Stats stats;
  stats.calls = log_->state();
  MutexLock lock(mutex_);
  stats.segment_count = segments_.size();
  for (const auto& [number, segment] : segments_) stats.segment_bytes += segment.bytes;
  stats.used_bytes = stats.segment_bytes - free_list_.free_bytes();
  stats.buffer_count = buffer_count_;
  return stats;
}

}  // namespace ashlar::symm
