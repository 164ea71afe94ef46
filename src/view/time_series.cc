// SPDX-License-Identifier: Apache-2.0
//
// Scans short ranges of moments. The pyramid needs no levels for them and therefore takes little
// memory.
#include "view/time_series.h"

#include <algorithm>
#include <bit>

namespace ashlar::view {
namespace {

constexpr uint32_t kBlockMoments = 64;

}  // namespace

TimeSeries::TimeSeries(std::vector<uint64_t> values) : values_(std::move(values)) {
  std::vector<Extremes> level;
  for (uint32_t begin = 0; begin < size(); begin += kBlockMoments) {
    level.push_back(scan({begin, begin + std::min(kBlockMoments, size() - begin)}));
    if (size() - begin <= kBlockMoments) break;
  }
  while (level.size() > 1) {
    std::vector<Extremes> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      Extremes both = level[i];
      if (i + 1 < level.size()) {
        const Extremes& right = level[i + 1];
        if (values_[right.highest_at] > values_[both.highest_at]) {
          both.highest_at = right.highest_at;
        }
        both.lowest = std::min(both.lowest, right.lowest);
      }
      next.push_back(both);
    }
    levels_.push_back(std::move(level));
    level = std::move(next);
  }
  if (!level.empty()) levels_.push_back(std::move(level));
}

Extremes TimeSeries::extremes(EntryRange range) const {
  const uint32_t length = range.end - range.begin;
  if (length <= kBlockMoments) return scan(range);
  const auto width = std::bit_width((length - 1) / kBlockMoments);
  const auto level = std::min<size_t>(static_cast<size_t>(width), levels_.size() - 1);
  return levels_[level][range.begin / (uint64_t{kBlockMoments} << level)];
}

Extremes TimeSeries::scan(EntryRange range) const {
  Extremes found{.highest_at = range.begin, .lowest = values_[range.begin]};
  for (uint32_t moment = range.begin; moment < range.end; ++moment) {
    if (values_[moment] > values_[found.highest_at]) found.highest_at = moment;
    found.lowest = std::min(found.lowest, values_[moment]);
  }
  return found;
}

}  // namespace ashlar::view
