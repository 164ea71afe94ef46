// SPDX-License-Identifier: Apache-2.0
//
// Tests of line splitting.
#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ashlar {
namespace {

using ::testing::ElementsAre;

std::vector<std::string_view> all_lines(std::string_view text, std::string_view line_end) {
  std::vector<std::string_view> lines;
  while (!text.empty()) lines.push_back(take_line(text, line_end));
  return lines;
}

TEST(LinesTest, SplitsLines) {
  EXPECT_THAT(all_lines("a\n\nb\n", "\n"), ElementsAre("a", "", "b"));
  EXPECT_THAT(all_lines("a\nb", "\n"), ElementsAre("a", "b")) << "the last line may lack its end";
  EXPECT_THAT(all_lines("\n", "\n"), ElementsAre(""));
  EXPECT_THAT(all_lines("", "\n"), ElementsAre());
}

TEST(LinesTest, SplitsAtTwoCharacterLineEnds) {
  EXPECT_THAT(all_lines("a\rb\nc\r\nd\r", "\r\n"), ElementsAre("a\rb\nc", "d\r"));
}

}  // namespace
}  // namespace ashlar
