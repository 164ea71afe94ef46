// SPDX-License-Identifier: Apache-2.0
//
// What is there at a moment, found by lists, and by looking at everything.
#include "view/lives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "view/series.h"

namespace ashlar::view {
namespace {

std::vector<uint32_t> all_at(const std::vector<Life>& lives, uint32_t moment) {
  std::vector<uint32_t> present;
  for (uint32_t i = 0; i < lives.size(); ++i) {
    if (lives[i].is_at(moment)) present.push_back(i);
  }
  return present;
}

TEST(LivesTest, TheSameAreThereAsWhenLookingAtAll) {
  constexpr uint32_t kEntries = 30'000;
  Random random(7);
  std::vector<Life> lives;
  for (uint32_t i = 0; i < 8'000; ++i) {
    const auto begin = static_cast<uint32_t>(random.below(kEntries));
    const bool is_long = random.below(10) == 0;
    const auto end = begin + static_cast<uint32_t>(random.below(is_long ? kEntries : 50));
    lives.push_back({.begin = i < 100 ? 0 : begin, .end = random.below(50) == 0 ? kNever : end});
  }
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Life& a, const Life& b) { return a.begin < b.begin; });
  const Lives found(lives, kEntries);
  for (uint32_t moment = 0; moment < kEntries; moment += 97) {
    ASSERT_EQ(found.at(moment), all_at(lives, moment)) << moment;
  }
  EXPECT_EQ(found.at(kEntries - 1), all_at(lives, kEntries - 1));
  EXPECT_EQ(found.first_after(kEntries), lives.size());
}

TEST(LivesTest, NothingIsThereWhereNothingEverWas) {
  EXPECT_TRUE(Lives({}, 100).at(50).empty());
  EXPECT_TRUE(Lives().at(0).empty());
}

TEST(SeriesTest, ExtremesAreThoseOfARunThroughTheRange) {
  Random random(3);
  for (const uint32_t count : {1U, 63U, 64U, 65U, 1000U, 4096U, 5001U}) {
    std::vector<uint64_t> values;
    for (uint32_t i = 0; i < count; ++i) values.push_back(random.below(500));
    const Series series(values);
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

}  // namespace
}  // namespace ashlar::view
