// SPDX-License-Identifier: Apache-2.0
//
// Tests which pieces select_for_trim selects, and in which order.
#include "engine/trim_selection.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

using Positions = std::vector<size_t>;

TEST(SelectForTrim, TakesPreferredPiecesUntilEnough) {
  EXPECT_EQ(select_for_trim({4, 4, 4}, 8), (Positions{0, 1}));
}

TEST(SelectForTrim, TakesNothingForZeroBytes) { EXPECT_TRUE(select_for_trim({4, 4}, 0).empty()); }

TEST(SelectForTrim, TakesAllIfInsufficient) {
  EXPECT_EQ(select_for_trim({4, 2}, 100), (Positions{0, 1}));
  EXPECT_EQ(select_for_trim({4, 2}, SIZE_MAX), (Positions{0, 1}));
}

TEST(SelectForTrim, SkipsPiecesLargerThanMissing) {
  EXPECT_EQ(select_for_trim({64, 2, 2}, 4), (Positions{1, 2}));
}

TEST(SelectForTrim, EndsWithSmallestSufficientPiece) {
  EXPECT_EQ(select_for_trim({64, 16, 32}, 5), (Positions{1}));
  EXPECT_EQ(select_for_trim({4, 64, 16}, 5), (Positions{2})) << "16 alone is enough";
  EXPECT_EQ(select_for_trim({8, 64, 10}, 12), (Positions{0, 2}));
}

}  // namespace
}  // namespace ashlar
