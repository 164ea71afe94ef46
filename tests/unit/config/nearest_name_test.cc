// SPDX-License-Identifier: Apache-2.0
//
// Tests of "did you mean" suggestions.
#include "config/nearest_name.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace ashlar {
namespace {

constexpr std::array<std::string_view, 4> kKnown = {"info", "demo", "replay", "report"};

TEST(NearestNameTest, ForgivesOneEdit) {
  EXPECT_EQ(nearest_name("imfo", kKnown), "info");
  EXPECT_EQ(nearest_name("inf", kKnown), "info");
  EXPECT_EQ(nearest_name("infoo", kKnown), "info");
  EXPECT_EQ(nearest_name("ifno", kKnown), "info");
}

TEST(NearestNameTest, PrefersTheFewestEdits) {
  EXPECT_EQ(nearest_name("repaly", kKnown), "replay");
  EXPECT_EQ(nearest_name("reprot", kKnown), "report");
}

TEST(NearestNameTest, PrefersTheFirstOfEquals) {
  constexpr std::array<std::string_view, 2> known = {"bat", "cat"};
  EXPECT_EQ(nearest_name("hat", known), "bat");
}

TEST(NearestNameTest, FindsAnExactName) { EXPECT_EQ(nearest_name("demo", kKnown), "demo"); }

TEST(NearestNameTest, SuggestsNothingForDistantNames) {
  EXPECT_EQ(nearest_name("zzzzzz", kKnown), std::nullopt);
  EXPECT_EQ(nearest_name("synchronize", kKnown), std::nullopt);
}

TEST(NearestNameTest, SuggestsNothingForEmptyInput) {
  EXPECT_EQ(nearest_name("", kKnown), std::nullopt);
  EXPECT_EQ(nearest_name("info", {}), std::nullopt);
}

TEST(NearestNameTest, SkipsLongNames) {
  const std::string name(size_t{1} << 27U, 'i');  // a table of distances would take 5 GiB
  const std::array<std::string_view, 2> known = {name, "info"};
  EXPECT_EQ(nearest_name("inof", known), "info");
}

TEST(NearestNameTest, SuggestsNoNameWithoutCommonLetters) {
  constexpr std::array<std::string_view, 1> known = {"ab"};
  EXPECT_EQ(nearest_name("xy", known), std::nullopt);
}

}  // namespace
}  // namespace ashlar
