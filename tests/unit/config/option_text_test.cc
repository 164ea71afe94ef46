// SPDX-License-Identifier: Apache-2.0
//
// Tests of the option grammar and its error messages.
#include "config/option_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ashlar {
namespace {

using ::testing::SizeIs;

std::vector<OptionAssignment> read(std::string_view text) {
  const Result<std::vector<OptionAssignment>> assignments = parse_option_text(text);
  EXPECT_TRUE(assignments.ok()) << assignments.status().to_string();
  return assignments.ok() ? *assignments : std::vector<OptionAssignment>();
}

std::string read_error(std::string_view text) {
  const Result<std::vector<OptionAssignment>> assignments = parse_option_text(text);
  EXPECT_FALSE(assignments.ok()) << text;
  EXPECT_EQ(assignments.status().kind(), StatusKind::kInvalidArgument);
  return assignments.status().message();
}

TEST(OptionTextTest, BlankTextHasNoOptions) {
  EXPECT_THAT(read(""), SizeIs(0));
  EXPECT_THAT(read(" \t\n\v\f\r "), SizeIs(0));
}

TEST(OptionTextTest, PreservesTheOrderOfOptions) {
  const std::vector<OptionAssignment> found = read("one:1,two:2");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].name, "one");
  EXPECT_EQ(found[0].value, "1");
  EXPECT_FALSE(found[0].is_list);
  EXPECT_EQ(found[1].name, "two");
  EXPECT_EQ(found[1].value, "2");
}

TEST(OptionTextTest, ParsesListsAndKeepsTheirText) {
  const std::vector<OptionAssignment> found = read("some:[a:1,>:2],other:x,none:[]");
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_TRUE(found[0].is_list);
  EXPECT_EQ(found[0].value, "[a:1,>:2]");
  ASSERT_THAT(found[0].entries, SizeIs(2));
  EXPECT_EQ(found[0].entries[1].name, ">");
  EXPECT_EQ(found[0].entries[1].value, "2");
  EXPECT_EQ(found[1].value, "x");
  EXPECT_TRUE(found[2].is_list);
  EXPECT_THAT(found[2].entries, SizeIs(0));
}

TEST(OptionTextTest, TrimsWhitespaceAroundWords) {
  const std::vector<OptionAssignment> found = read("\t one : 1 2 ,\n list : [ a : 1 , b:2 ] ");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].name, "one");
  EXPECT_EQ(found[0].value, "1 2");
  EXPECT_EQ(found[1].value, "[ a : 1 , b:2 ]");
  ASSERT_THAT(found[1].entries, SizeIs(2));
  EXPECT_EQ(found[1].entries[0].name, "a");
  EXPECT_EQ(found[1].entries[0].value, "1");
}

struct WrongText {
  const char* name;
  const char* text;
  const char* message;
};

class WrongOptionTextTest : public ::testing::TestWithParam<WrongText> {};

TEST_P(WrongOptionTextTest, ErrorHasPositionAndExpectation) {
  EXPECT_EQ(read_error(GetParam().text), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongOptionTextTest,
    ::testing::Values(
        WrongText{"NoColon", "one", "one: a value is missing before the end (expected name:value)"},
        WrongText{"EqualsSign", "one=1,two:2",
                  "one=1: a value is missing before \",two:2\" (expected name:value)"},
        WrongText{"NoValue",
                  "one:", "one: a value is missing before the end (expected name:value)"},
        WrongText{"NoValueBeforeAComma", "one:,two:2",
                  "one: a value is missing before \",two:2\" (expected name:value)"},
        WrongText{"NoName", ":1", "an option is missing before \":1\" (expected name:value)"},
        WrongText{"CommaFirst", ",one:1",
                  "an option is missing before \",one:1\" (expected name:value)"},
        WrongText{"TwoCommas", "one:1,,two:2",
                  "an option is missing before \",two:2\" (expected name:value)"},
        WrongText{"CommaLast", "one:1,",
                  "one: \"1\" is followed by a comma and the end (expected another name:value)"},
        WrongText{"SecondColon", "one:1:2",
                  "one: \"1\" is followed by \":2\" (expected a comma or the end)"},
        WrongText{"ListAfterValue", "one:1[a:1]",
                  "one: \"1\" is followed by \"[a:1]\" (expected a comma or the end)"},
        WrongText{"ValueAfterList", "one:[a:1]2",
                  "one: \"[a:1]\" is followed by \"2\" (expected a comma or the end)"},
        WrongText{"ListInPlaceOfColon", "one[a:1]",
                  "one: a value is missing before \"[a:1]\" (expected name:value)"},
        WrongText{"ListAlone", "[a:1]",
                  "an option is missing before \"[a:1]\" (expected name:value)"},
        WrongText{"ClosedTwice", "one:[a:1]]",
                  "one: \"[a:1]\" is followed by \"]\" (expected a comma or the end)"},
        WrongText{"NotClosed", "one:[a:1",
                  "one: in the list, \"1\" is followed by the end (expected a comma or ])"},
        WrongText{"OpenedOnly", "one:[",
                  "one: in the list, an entry is missing before the end (expected name:value)"},
        WrongText{"ListWithinAList", "one:[a:[b:1]]",
                  "one: in the list, \"a\" is followed by \"[b:1]]\" (expected name:value)"},
        WrongText{"EntryWithoutValue", "one:[1,2]",
                  "one: in the list, \"1\" is followed by \",2]\" (expected name:value)"},
        WrongText{"EntryMissing", "one:[a:1,]",
                  "one: in the list, an entry is missing before \"]\" (expected name:value)"},
        WrongText{"EntryTooLong", "one:[a:1:2]",
                  "one: in the list, \"1\" is followed by \":2]\" (expected a comma or ])"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(OptionTextTest, ExcerptsAreShortAndOnOneLine) {
  EXPECT_EQ(in_quotes("a\nb\tc"), "\"a b c\"");
  const std::string shown = in_quotes(std::string(1000, 'x'));
  EXPECT_LT(shown.size(), 100U);
  EXPECT_TRUE(shown.ends_with("…\""));
  // After 79 letters, the 80th byte is the first half of a two-byte character, which must not be
  // cut.
  EXPECT_EQ(excerpt(std::string(79, 'x') + "éé"), std::string(79, 'x') + "…");
}

}  // namespace
}  // namespace ashlar
