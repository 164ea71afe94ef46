// SPDX-License-Identifier: Apache-2.0
//
// The free ranges of a pool's segments. Allocates by best fit: from the smallest range that is
// large enough and, among ranges of this size, from the one in the oldest segment at the lowest
// offset. Ranges are identified by segment number and offset rather than by address, so that ranks
// that make the same calls get the same results. Not thread safe.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace ashlar::symm {

// Invariant: allocated and free ranges tile each segment, and no two free ranges are adjacent.
class SegmentFreeList {
 public:
  struct Position {
    uint64_t segment = 0;
    size_t offset = 0;
    auto operator<=>(const Position&) const = default;
  };

  // Adds a segment that is entirely free. REQUIRES: `segment` is a new number.
  void add_segment(uint64_t segment, size_t bytes);
  // Allocates by best fit. Returns nothing if no range is large enough. REQUIRES: bytes > 0.
  std::optional<Position> allocate(size_t bytes);
  // Frees an allocated range. REQUIRES: the range was allocated with this size.
  void release(Position position, size_t bytes);
  // Removes the segments without allocations and returns their numbers, in order.
  std::vector<uint64_t> remove_empty_segments();

  size_t free_bytes() const { return free_bytes_; }

 private:
  void add(Position position, size_t bytes);
  void remove(std::map<Position, size_t>::iterator range);

  std::map<uint64_t, size_t> segments_;             // the size of each segment
  std::map<Position, size_t> by_position_;          // the size of each free range
  std::set<std::tuple<size_t, Position>> by_size_;  // the same free ranges by size
  size_t free_bytes_ = 0;                           // the total size of the free ranges
};

}  // namespace ashlar::symm
