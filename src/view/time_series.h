// SPDX-License-Identifier: Apache-2.0
//
// Bytes over time, with a pyramid of extremes for fast range queries, and the times of entries as a
// short list of points. Immutable and therefore thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::view {

// The half-open range [begin, end) of moments.
struct EntryRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct Extremes {
  uint32_t highest_at = 0;  // the first moment with the maximum
  uint64_t lowest = 0;
};

class TimeSeries {
 public:
  TimeSeries() = default;
  explicit TimeSeries(std::vector<uint64_t> values);

  uint64_t at(uint32_t moment) const { return values_[moment]; }
  uint32_t size() const { return static_cast<uint32_t>(values_.size()); }
  // REQUIRES: the range is not empty, its length is a power of two unless the end of the series
  // cuts it off, and it begins at a multiple of that power of two.
  Extremes extremes(EntryRange range) const;

 private:
  Extremes scan(EntryRange range) const;

  std::vector<uint64_t> values_{};
  // An element of level n covers 2^n * kBlockMoments moments.
  std::vector<std::vector<Extremes>> levels_{};
};

struct TimePoint {
  uint32_t entry = 0;
  double time_us = 0;
  friend bool operator==(const TimePoint&, const TimePoint&) = default;
};

// Returns at most `max_count` of the points, chosen so that interpolation between them stays close
// to the omitted points.
// REQUIRES: entries ascend, times do not descend, and max_count >= 2.
std::vector<TimePoint> thin_out(const std::vector<TimePoint>& points, size_t max_count);

}  // namespace ashlar::view
