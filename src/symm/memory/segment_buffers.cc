// SPDX-License-Identifier: Apache-2.0
//
// Finds buffers by offset. Removing a buffer drops the record of its rendezvous.
#include "symm/memory/segment_buffers.h"

#include <algorithm>
#include <iterator>

namespace ashlar::symm {

void SegmentBuffers::add(const PoolBuffer& pool_buffer) {
  auto buffer = std::make_shared<const PoolBuffer>(pool_buffer);
  MutexLock lock(mutex_);
  entries_.emplace(pool_buffer.offset, Entry{std::move(buffer), {}});
}

void SegmentBuffers::remove(size_t offset) {
  MutexLock lock(mutex_);
  entries_.erase(offset);
}

std::shared_ptr<const PoolBuffer> SegmentBuffers::find(size_t offset) const {
  MutexLock lock(mutex_);
  const auto after = entries_.upper_bound(offset);
  if (after == entries_.begin()) return nullptr;
  const std::shared_ptr<const PoolBuffer>& found = std::prev(after)->second.pool_buffer;
  const bool is_inside = offset - found->offset < std::max<size_t>(found->bytes, 1);
  return is_inside ? found : nullptr;
}

bool SegmentBuffers::has_rendezvous(const PoolBuffer& pool_buffer, const Token& group) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(pool_buffer.offset);
  return found != entries_.end() && found->second.pool_buffer->ordinal == pool_buffer.ordinal &&
         found->second.groups.contains(group);
}

void SegmentBuffers::mark_rendezvous(const PoolBuffer& pool_buffer, const Token& group) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(pool_buffer.offset);
  if (found == entries_.end() || found->second.pool_buffer->ordinal != pool_buffer.ordinal) return;
  found->second.groups.insert(group);
}

void SegmentBuffers::forget_group(const Token& group) {
  MutexLock lock(mutex_);
  for (auto& [offset, entry] : entries_) entry.groups.erase(group);
}

}  // namespace ashlar::symm
