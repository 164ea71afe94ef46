// SPDX-License-Identifier: Apache-2.0
//
// Finds the intervals that contain a moment, such as the allocations that are live after an entry.
// Checkpoints list the intervals at some moments, so that the time for a query depends on the size
// and distance of the nearest checkpoint and not on the length of the trace. All checkpoints except
// the last list together at most as many intervals as the trace has entries. Immutable and
// therefore thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::view {

inline constexpr uint32_t kNever = UINT32_MAX;    // later than every moment
inline constexpr uint32_t kNoIndex = UINT32_MAX;  // no index or id

// The moments [begin, end).
struct EntryInterval {
  uint32_t begin = 0;
  uint32_t end = kNever;

  bool contains(uint32_t moment) const { return begin <= moment && moment < end; }
};

class IntervalIndex {
 public:
  IntervalIndex() = default;
  // REQUIRES: `all` is sorted by begin.
  IntervalIndex(std::vector<EntryInterval> all, uint32_t entry_count);

  const std::vector<EntryInterval>& all() const { return all_; }
  // Returns the indexes into all() of the intervals that contain the moment, ascending.
  std::vector<uint32_t> at(uint32_t moment) const;
  // Returns the first index into all() of an interval that begins after the moment.
  uint32_t first_after(uint32_t moment) const;

 private:
  struct Checkpoint {
    uint32_t moment = 0;
    // The intervals are checkpoint_intervals_[begin, begin of the next checkpoint).
    size_t begin = 0;
  };

  std::vector<EntryInterval> all_{};
  std::vector<Checkpoint> checkpoints_{};         // the last is an empty sentinel
  std::vector<uint32_t> checkpoint_intervals_{};  // indexes into all_
};

}  // namespace ashlar::view
