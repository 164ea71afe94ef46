// SPDX-License-Identifier: Apache-2.0
//
// Which parts of a pool's segments are free, and which of them a request gets: the smallest that is
// large enough, of equal ones that in the oldest segment, there the first. Segments have numbers
// and parts have offsets; no address has a say, so that ranks that ask the same get the same.
// Arithmetic alone; not thread safe.
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

// The parts that are taken and the holes of a segment tile it; no two holes are neighbours.
class SegmentFreeList {
 public:
  struct Position {
    uint64_t segment = 0;
    size_t offset = 0;
    auto operator<=>(const Position&) const = default;
  };

  // REQUIRES: a new number.
  void add_segment(uint64_t segment, size_t bytes);
  // Nothing: no hole is large enough. REQUIRES: bytes > 0.
  std::optional<Position> allocate(size_t bytes);
  // REQUIRES: taken, so many bytes.
  void release(Position position, size_t bytes);
  // Forgets the segments that nothing was taken from. Which they were, in order.
  std::vector<uint64_t> remove_empty_segments();

  size_t free_bytes() const { return free_bytes_; }

 private:
  void add(Position position, size_t bytes);
  void remove(std::map<Position, size_t>::iterator hole);

  std::map<uint64_t, size_t> segments_;             // their bytes
  std::map<Position, size_t> by_position_;          // bytes of each hole
  std::set<std::tuple<size_t, Position>> by_size_;  // the same holes
  size_t free_bytes_ = 0;                           // of all
};

}  // namespace ashlar::symm
