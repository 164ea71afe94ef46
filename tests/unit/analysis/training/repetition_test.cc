// SPDX-License-Identifier: Apache-2.0
//
// Tests which sequences count as loops.
#include "analysis/training/repetition.h"

#include <gtest/gtest.h>

#include <string_view>

namespace ashlar {
namespace {

// Each character is a token; its index is the position.
std::vector<uint32_t> loop_in(std::string_view text) {
  std::vector<TokenAt> tokens;
  for (const char c : text) {
    tokens.push_back({static_cast<uint64_t>(c), static_cast<uint32_t>(tokens.size())});
  }
  return find_repetition(tokens);
}

TEST(RepetitionTest, FindsTheFirstTokenOfEachIteration) {
  EXPECT_EQ(loop_in("xabcabcabc"), (std::vector<uint32_t>{1, 4, 7}));
}

TEST(RepetitionTest, AllowsOtherTokensBetween) {
  EXPECT_EQ(loop_in("azbabzz"), std::vector<uint32_t>());  // twice only
  EXPECT_EQ(loop_in("azbabzzaqb"), (std::vector<uint32_t>{0, 3, 7}));
}

TEST(RepetitionTest, PrefersTheLoopWithMoreTokens) {
  EXPECT_EQ(loop_in("opabcabcopabcabcopabcabc"), (std::vector<uint32_t>{2, 5, 10, 13, 18, 21}));
}

TEST(RepetitionTest, NeedsTwoTokensAndThreeIterations) {
  EXPECT_EQ(loop_in("aaaa"), std::vector<uint32_t>());
  EXPECT_EQ(loop_in("abab"), std::vector<uint32_t>());
  EXPECT_EQ(loop_in(""), std::vector<uint32_t>());
}

TEST(RepetitionTest, RejectsTokensOutOfOrder) {
  EXPECT_EQ(loop_in("aaabbb"), std::vector<uint32_t>());
}

}  // namespace
}  // namespace ashlar
