// SPDX-License-Identifier: Apache-2.0
//
// Allocates by best fit, and coalesces released ranges.
#include "symm/memory/segment_free_list.h"

#include <iterator>

namespace ashlar::symm {

void SegmentFreeList::add_segment(uint64_t segment, size_t bytes) {
  segments_.emplace(segment, bytes);
  add({.segment = segment, .offset = 0}, bytes);
}

std::optional<SegmentFreeList::Position> SegmentFreeList::allocate(size_t bytes) {
  const auto fitting = by_size_.lower_bound({bytes, Position{}});
  if (fitting == by_size_.end()) return std::nullopt;
  const auto [range_bytes, position] = *fitting;
  remove(by_position_.find(position));
  if (range_bytes > bytes) add({position.segment, position.offset + bytes}, range_bytes - bytes);
  return position;
}

void SegmentFreeList::release(Position position, size_t bytes) {
  auto after = by_position_.upper_bound(position);
  if (after != by_position_.end() &&
      after->first == Position{position.segment, position.offset + bytes}) {
    bytes += after->second;
    remove(after);
  }
  after = by_position_.upper_bound(position);
  if (after != by_position_.begin()) {
    const auto before = std::prev(after);
    const Position begin = before->first;
    if (begin.segment == position.segment && begin.offset + before->second == position.offset) {
      bytes += before->second;
      remove(before);
      position = begin;
    }
  }
  add(position, bytes);
}

std::vector<uint64_t> SegmentFreeList::remove_empty_segments() {
  std::vector<uint64_t> removed;
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto range = by_position_.find({segment->first, 0});
    if (range == by_position_.end() || range->second != segment->second) {
      ++segment;
      continue;
    }
    removed.push_back(segment->first);
    remove(range);
    segment = segments_.erase(segment);
  }
  return removed;
}

void SegmentFreeList::add(Position position, size_t bytes) {
  by_position_.emplace(position, bytes);
  by_size_.emplace(bytes, position);
  free_bytes_ += bytes;
}

void SegmentFreeList::remove(std::map<Position, size_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  free_bytes_ -= range->second;
  by_position_.erase(range);
}

}  // namespace ashlar::symm
