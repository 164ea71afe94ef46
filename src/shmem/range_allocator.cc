// SPDX-License-Identifier: Apache-2.0
//
// First fit with immediate coalescing.
#include "shmem/range_allocator.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/align.h"

namespace ashlar::shmem {
namespace {

// Ranges are whole cache lines, so that waits on words of different ranges cause no false sharing.
constexpr size_t kLineBytes = 64;

// Returns the size of the range for a request, or nothing if rounding up would overflow.
std::optional<size_t> range_bytes_for(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() - kLineBytes) return std::nullopt;
  return align_up(std::max<size_t>(bytes, 1), kLineBytes);
}

}  // namespace

std::optional<size_t> RangeAllocator::allocate(size_t bytes, size_t alignment) {
  const std::optional<size_t> room = range_bytes_for(bytes);
  if (!room) return std::nullopt;
  const size_t wanted = *room;
  const size_t step = std::max(alignment, kLineBytes);
  for (const auto& [begin, available] : free_) {
    const std::optional<uint64_t> aligned = try_align_up(begin, step);
    if (!aligned) continue;
    const size_t offset = *aligned;
    const size_t skipped = offset - begin;
    if (skipped > available || wanted > available - skipped) continue;
    const size_t behind = available - skipped - wanted;
    live_[offset] = {wanted, bytes};
    const size_t free_begin = begin;  // `begin` dangles after the erase
    free_.erase(free_begin);
    if (skipped > 0) free_[free_begin] = skipped;
    if (behind > 0) free_[offset + wanted] = behind;
    return offset;
  }
  return std::nullopt;
}

std::optional<size_t> RangeAllocator::requested_bytes(size_t offset) const {
  const auto found = live_.find(offset);
  if (found == live_.end()) return std::nullopt;
  return found->second.requested_bytes;
}

bool RangeAllocator::resize(size_t offset, size_t bytes) {
  LiveRange& live = live_.find(offset)->second;
  const std::optional<size_t> wanted = range_bytes_for(bytes);
  if (!wanted) return false;
  const size_t end = offset + live.range_bytes;
  if (*wanted > live.range_bytes) {
    const auto behind = free_.find(end);
    const size_t missing = *wanted - live.range_bytes;
    if (behind == free_.end() || behind->second < missing) return false;
    const size_t left = behind->second - missing;
    free_.erase(behind);
    if (left > 0) free_[end + missing] = left;
  } else if (*wanted < live.range_bytes) {
    insert_free(offset + *wanted, live.range_bytes - *wanted);
  }
  live = {*wanted, bytes};
  return true;
}

void RangeAllocator::free(size_t offset) {
  const auto found = live_.find(offset);
  insert_free(offset, found->second.range_bytes);
  live_.erase(found);
}

void RangeAllocator::insert_free(size_t offset, size_t bytes) {
  auto merged = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(merged);
      next != free_.end() && next->first == merged->first + merged->second) {
    merged->second += next->second;
    free_.erase(next);
  }
  if (merged == free_.begin()) return;
  const auto before = std::prev(merged);
  if (before->first + before->second == merged->first) {
    before->second += merged->second;
    free_.erase(merged);
  }
}

}  // namespace ashlar::shmem
