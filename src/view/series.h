// SPDX-License-Identifier: Apache-2.0
//
// How many bytes there were at each moment, and where within a range of moments the most: a pyramid
// of extremes over the entries. Constant once built, and so thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::view {

// Half-open.
struct Moments {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct Extremes {
  uint32_t highest_at = 0;  // the first moment with the most
  uint64_t lowest = 0;
};

class Series {
 public:
  Series() = default;
  explicit Series(std::vector<uint64_t> values);

  uint64_t at(uint32_t moment) const { return values_[moment]; }
  uint32_t size() const { return static_cast<uint32_t>(values_.size()); }
  // REQUIRES: not empty, within the series, and begins at a multiple of its length, or of the power
  // of two of which the end of the series cuts it off.
  Extremes extremes(Moments range) const;

 private:
  Extremes scan(Moments range) const;

  std::vector<uint64_t> values_{};
  std::vector<std::vector<Extremes>> levels_{};  // of kBlock moments, then of twice as many each
};

}  // namespace ashlar::view
