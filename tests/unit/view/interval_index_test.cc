// SPDX-License-Identifier: Apache-2.0
//
// Compares the intervals found at a moment and the extremes of a series with linear scans.
#include "view/interval_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "view/time_series.h"

namespace ashlar::view {
namespace {

std::vector<uint32_t> intervals_at(const std::vector<EntryInterval>& intervals, uint32_t moment) {
  std::vector<uint32_t> present;
  for (uint32_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].contains(moment)) present.push_back(i);
  }
  return present;
}

TEST(IntervalIndexTest, AgreesWithALinearScan) {
  constexpr uint32_t kEntries = 30'000;
  Random random(7);
  std::vector<EntryInterval> intervals;
  for (uint32_t i = 0; i < 8'000; ++i) {
    const auto begin = static_cast<uint32_t>(random.below(kEntries));
    const bool is_long = random.below(10) == 0;
    const auto end = begin + static_cast<uint32_t>(random.below(is_long ? kEntries : 50));
    intervals.push_back(
        {.begin = i < 100 ? 0 : begin, .end = random.below(50) == 0 ? kNever : end});
  }
  std::stable_sort(
      intervals.begin(), intervals.end(),
      [](const EntryInterval& a, const EntryInterval& b) { return a.begin < b.begin; });
  const IntervalIndex found(intervals, kEntries);
  for (uint32_t moment = 0; moment < kEntries; moment += 97) {
    ASSERT_EQ(found.at(moment), intervals_at(intervals, moment)) << moment;
  }
  EXPECT_EQ(found.at(kEntries - 1), intervals_at(intervals, kEntries - 1));
  EXPECT_EQ(found.first_after(kEntries), intervals.size());
}

TEST(IntervalIndexTest, FindsNothingWhenEmpty) {
  EXPECT_TRUE(IntervalIndex({}, 100).at(50).empty());
  EXPECT_TRUE(IntervalIndex().at(0).empty());
}

TEST(TimeSeriesTest, AgreesWithALinearScan) {
  Random random(3);
  for (const uint32_t count : {1U, 63U, 64U, 65U, 1000U, 4096U, 5001U}) {
    std::vector<uint64_t> values;
    for (uint32_t i = 0; i < count; ++i) values.push_back(random.below(500));
    const TimeSeries series(values);
    for (uint32_t width = 1; width < 2 * count; width *= 2) {
      for (uint32_t begin = 0; begin < count; begin += width) {
        const uint32_t end = std::min(begin + width, count);
        const auto first = values.begin() + begin;
        const auto last = values.begin() + end;
        const Extremes found = series.extremes({begin, end});
        ASSERT_EQ(found.highest_at, std::max_element(first, last) - values.begin())
            << "of " << count << ", from " << begin << " to " << end;
        ASSERT_EQ(found.lowest, *std::min_element(first, last));
      }
    }
  }
}

// Returns the largest distance, in microseconds, between the points and the polyline `line`.
double deviation(const std::vector<TimePoint>& points, const std::vector<TimePoint>& line) {
  double most = 0;
  size_t piece = 0;
  for (const TimePoint& point : points) {
    while (piece + 2 < line.size() && line[piece + 1].entry < point.entry) ++piece;
    const TimePoint& a = line[piece];
    const TimePoint& b = line[piece + 1];
    const double slope = (b.time_us - a.time_us) / (b.entry - a.entry);
    most = std::max(most, std::abs(a.time_us + slope * (point.entry - a.entry) - point.time_us));
  }
  return most;
}

TEST(TimePointsTest, ThinOutKeepsBurstsAndPauses) {
  Random random(11);
  std::vector<TimePoint> points = {{0, 0}};
  for (uint32_t entry = 1; entry < 20'000; ++entry) {
    const bool is_pause = random.below(500) == 0;
    const double step = is_pause ? 1e6 : static_cast<double>(random.below(20));
    points.push_back({entry, points.back().time_us + step});
  }
  const std::vector<TimePoint> kept = thin_out(points, 1000);
  EXPECT_LE(kept.size(), 1000U);
  EXPECT_EQ(kept.front(), points.front());
  EXPECT_EQ(kept.back(), points.back());
  EXPECT_LT(deviation(points, kept), points.back().time_us / 5000);
  EXPECT_EQ(thin_out(points, points.size()), points) << "few points are kept";
  EXPECT_EQ(thin_out(points, 2).size(), 2U);
}

}  // namespace
}  // namespace ashlar::view
