// SPDX-License-Identifier: Apache-2.0
//
// Tests of both forms of roundup_power2_divisions.
#include "config/roundup_divisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/allocator_options.h"

namespace ashlar {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<AllocatorOptions> parse(const std::string& value) {
  return parse_allocator_options("roundup_power2_divisions:" + value);
}

RoundupDivisions divisions_of(const std::string& value) {
  const Result<AllocatorOptions> options = parse(value);
  EXPECT_TRUE(options.ok()) << options.status().to_string();
  return options.ok() ? options->roundup_power2_divisions : RoundupDivisions{};
}

std::string error_for(const std::string& value) {
  const Result<AllocatorOptions> options = parse(value);
  EXPECT_FALSE(options.ok()) << value;
  EXPECT_EQ(options.status().kind(), StatusKind::kInvalidArgument);
  return options.status().message();
}

TEST(RoundupDivisionsTest, SingleNumberFillsAllSlots) {
  EXPECT_THAT(divisions_of("8"), Each(8));
  EXPECT_THAT(divisions_of("1"), Each(1));
  EXPECT_THAT(divisions_of("1048576"), Each(1048576));
}

TEST(RoundupDivisionsTest, EntrySetsTheSlotOfItsSize) {
  EXPECT_THAT(divisions_of("[1:2,2:4,4:8,8:16,16:32,32:64,64:2,128:4,256:8,512:16,1024:32,2048:64,"
                           "4096:2,8192:4,16384:8,32768:16]"),
              ElementsAre(2, 4, 8, 16, 32, 64, 2, 4, 8, 16, 32, 64, 2, 4, 8, 16));
}

TEST(RoundupDivisionsTest, FirstEntryFillsLowerSlots) {
  EXPECT_THAT(divisions_of("[8:4]"), ElementsAre(4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(RoundupDivisionsTest, GapsBetweenEntriesStayOff) {
  EXPECT_THAT(divisions_of("[2:8,16:4]"),
              ElementsAre(8, 8, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(RoundupDivisionsTest, GreaterSignFillsRemainingSlots) {
  EXPECT_THAT(divisions_of("[256:1,512:2,1024:4,>:8]"),
              ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8));
  EXPECT_THAT(divisions_of("[32768:2,>:8]"), Each(2)) << "no larger class exists";
}

TEST(RoundupDivisionsTest, LastEntryWinsInAnyOrder) {
  EXPECT_THAT(divisions_of("[4:2,1:8]"),
              ElementsAre(8, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(divisions_of("[4:2,1:8,>:4]"),
              ElementsAre(8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4));
}

TEST(RoundupDivisionsTest, AcceptsZeroOnlyInLists) {
  EXPECT_THAT(divisions_of("[1:0,2:4,>:0]"),
              ElementsAre(0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(error_for("0"), HasSubstr("\"0\" is not a power of two (expected "));
}

TEST(RoundupDivisionsTest, OffIsTheDefault) { EXPECT_EQ(*parse("off"), AllocatorOptions()); }

TEST(RoundupDivisionsTest, RejectsInvalidDivisions) {
  for (const char* wrong : {"3", "-4", "4.0", "x", "99999999999999999999"}) {
    EXPECT_THAT(error_for(wrong),
                HasSubstr(std::string("\"") + wrong + "\" is not a power of two"));
  }
  EXPECT_THAT(error_for("2097152"), HasSubstr("\"2097152\" is out of range"));
  EXPECT_THAT(error_for("[256:3]"),
              HasSubstr("roundup_power2_divisions: 256: \"3\" is neither 0 nor a power of two"));
  EXPECT_THAT(error_for("[256:2097152]"), HasSubstr("256: \"2097152\" is out of range"));
  EXPECT_THAT(error_for("[>:3]"), HasSubstr("\"3\" is neither 0 nor a power of two"));
}

TEST(RoundupDivisionsTest, RejectsInvalidSizes) {
  EXPECT_THAT(error_for("[3:4]"), HasSubstr("has \"3\", which is not a power of two"));
  EXPECT_THAT(error_for("[0:4]"), HasSubstr("has \"0\", which is not a power of two"));
  EXPECT_THAT(error_for("[<:4]"), HasSubstr("has \"<\", which is not a power of two"));
  EXPECT_THAT(error_for("[65536:4]"), HasSubstr("has \"65536\", which is out of range"));
}

// PyTorch applies an entry for a larger size to the last slot, and the last such entry wins.
TEST(RoundupDivisionsTest, CompatAppliesLargerSizesToLastSlot) {
  const auto last_slot = [](const std::string& value) {
    const Result<AllocatorOptions> options = parse(value + ",compat:pytorch");
    EXPECT_TRUE(options.ok()) << options.status().to_string();
    return options.ok() ? options->roundup_power2_divisions.back() : 0;
  };
  EXPECT_EQ(last_slot("[1:2,65536:4]"), 4U);
  EXPECT_EQ(last_slot("[32768:2,65536:4,1048576:8]"), 8U);
  EXPECT_EQ(last_slot("[1:2,65536:4,>:8]"), 4U) << "no slot is above the last one";
  EXPECT_THAT(parse("[64:8,64:8],compat:pytorch").status().message(), HasSubstr("\"64\" twice"));
}

TEST(RoundupDivisionsTest, RejectsDuplicatesAndMisplacedGreaterSign) {
  EXPECT_THAT(error_for("[]"), HasSubstr("\"[]\" is an empty list"));
  EXPECT_THAT(error_for("[64:8,64:8]"), HasSubstr("has \"64\" twice"));
  EXPECT_THAT(error_for("[>:8]"), HasSubstr("has \">\" in the wrong place"));
  EXPECT_THAT(error_for("[64:2,>:8,128:4]"), HasSubstr("has \">\" in the wrong place"));
}

TEST(RoundupDivisionsTest, FormatsTheShortestForm) {
  for (const char* form : {"8", "1", "[1:0,2:4]", "[8:4]", "[2:8,16:4]", "[256:1,512:2,1024:4,>:8]",
                           "[16384:0,>:8]", "[2:8,16384:0,>:4]", "[1:1,>:2]"}) {
    EXPECT_EQ(roundup_divisions_text(divisions_of(form)), form);
  }
  EXPECT_EQ(roundup_divisions_text(divisions_of("[1:2,2:2,>:2]")), "2");
  EXPECT_EQ(roundup_divisions_text(divisions_of("[4:2,1:8,>:4]")), "[1:8,>:4]");
}

}  // namespace
}  // namespace ashlar
