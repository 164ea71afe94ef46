// SPDX-License-Identifier: Apache-2.0
//
// Scans short ranges of moments. The pyramid needs no levels for them and therefore takes little
// memory. Points in time are thinned out with increasing tolerances, until few enough are left.
#include "view/time_series.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace ashlar::view {
namespace {

constexpr uint32_t kBlockMoments = 64;

// The first tolerance, as a fraction of the duration, and the factor to the next one.
constexpr double kFirstTolerance = 1e-8;
constexpr double kToleranceFactor = 4;

// The slopes of the lines that start at a pivot and pass all points so far within the tolerance.
class SlopeRange {
 public:
  SlopeRange(TimePoint pivot, double tolerance) : pivot_(pivot), tolerance_(tolerance) {}

  bool contains(TimePoint point) const {
    const double slope = (point.time_us - pivot_.time_us) / entries_to(point);
    return lowest_ <= slope && slope <= highest_;
  }
  void narrow(TimePoint point) {
    const double rise = point.time_us - pivot_.time_us;
    lowest_ = std::max(lowest_, (rise - tolerance_) / entries_to(point));
    highest_ = std::min(highest_, (rise + tolerance_) / entries_to(point));
  }

 private:
  double entries_to(TimePoint point) const { return point.entry - pivot_.entry; }

  TimePoint pivot_;
  double tolerance_;
  double lowest_ = -std::numeric_limits<double>::infinity();
  double highest_ = std::numeric_limits<double>::infinity();
};

// Returns points such that interpolation between them deviates by at most `tolerance` from the
// omitted points. Gives up when more than max_count points are needed, and returns max_count + 1
// points.
std::vector<TimePoint> thin_out_within(const std::vector<TimePoint>& points, double tolerance,
                                       size_t max_count) {
  std::vector<TimePoint> kept = {points.front()};
  SlopeRange slopes(points.front(), tolerance);
  for (size_t i = 1; i < points.size() && kept.size() < max_count; ++i) {
    if (!slopes.contains(points[i])) {
      kept.push_back(points[i - 1]);
      slopes = SlopeRange(points[i - 1], tolerance);
    }
    slopes.narrow(points[i]);
  }
  kept.push_back(points.back());
  return kept;
}

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

std::vector<TimePoint> thin_out(const std::vector<TimePoint>& points, size_t max_count) {
  if (points.size() <= max_count) return points;
  const double duration = points.back().time_us - points.front().time_us;
  for (double tolerance = duration * kFirstTolerance;; tolerance *= kToleranceFactor) {
    std::vector<TimePoint> kept = thin_out_within(points, tolerance, max_count);
    if (kept.size() <= max_count) return kept;
  }
}

}  // namespace ashlar::view
