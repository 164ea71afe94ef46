// SPDX-License-Identifier: Apache-2.0
//
// Tests that Random is deterministic and stays within bounds.
#include "base/random.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(RandomTest, SeedDeterminesTheSequence) {
  // The published SplitMix64 sequence for seed 1234567.
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(RandomTest, StaysWithinBounds) {
  Random random(7);
  bool seen[5] = {};
  for (int i = 0; i < 1000; ++i) {
    const uint64_t drawn = random.below(5);
    ASSERT_LT(drawn, 5u);
    seen[drawn] = true;
    const double fraction = random.fraction();
    ASSERT_GE(fraction, 0.0);
    ASSERT_LT(fraction, 1.0);
  }
  for (bool each : seen) EXPECT_TRUE(each);
}

}  // namespace
}  // namespace ashlar
