// SPDX-License-Identifier: Apache-2.0
//
// Compares plots character by character.
#include "cli/terminal/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ashlar {
namespace {

using ::testing::HasSubstr;

constexpr Terminal kUtf8 = {.width = 80, .is_utf8 = true};
constexpr Terminal kAsciiTerminal = {.width = 80, .is_utf8 = false};

PlotSeries area(std::vector<ColumnRange> columns) {
  return {.name = "requested", .style = PlotStyle::kArea, .columns = std::move(columns)};
}

TEST(PlotTest, AreaIsFilledToMinimumAndShadedToMaximum) {
  const Plot plot = {.series = {area({{0, 0}, {1, 1}, {4, 4}, {8, 8}, {4, 16}, {16, 16}})},
                     .begin_text = "a",
                     .end_text = "z",
                     .height = 2};
  EXPECT_EQ(draw(plot, kUtf8),
            "         16 B ┤    ░█\n"
            "          8 B ┤ ▁▄█▄█\n"
            "          0 B └──────\n"
            "               a    z\n"
            "               █ requested\n");
}

TEST(PlotTest, UsesAsciiWithoutUtf8) {
  const Plot plot = {.series = {area({{0, 0}, {1, 1}, {4, 4}, {8, 8}, {4, 16}, {16, 16}}),
                                {.name = "reserved",
                                 .style = PlotStyle::kLine,
                                 .columns = {{0, 0}, {8, 8}, {9, 9}, {16, 16}, {0, 0}, {0, 0}}}},
                     .mark = PlotMark{.column = 0, .text = "x"},
                     .height = 2};
  const std::string text = draw(plot, kAsciiTerminal);
  EXPECT_EQ(text,
            "               v x\n"
            "         16 B +  ==:#\n"
            "          8 B + =####\n"
            "          0 B +------\n"
            "\n"
            "               # requested   = reserved\n");
}

TEST(PlotTest, ShowsSmallestValue) {
  const Plot plot = {.series = {area({{1, 1}, {1'000'000, 1'000'000}})}, .height = 3};
  EXPECT_THAT(draw(plot, kUtf8), HasSubstr("│▁█"));
}

TEST(PlotTest, LinesHaveDifferentCharacters) {
  const PlotSeries first = {.name = "a", .style = PlotStyle::kLine, .columns = {{1, 1}}};
  const PlotSeries second = {.name = "b", .style = PlotStyle::kLine, .columns = {{9, 9}}};
  EXPECT_THAT(draw({.series = {first, second}}, kUtf8), HasSubstr("─ a   • b"));
}

TEST(PlotTest, PutsTextLeftOfMarkAtRightEdge) {
  const Plot plot = {.series = {area(std::vector<ColumnRange>(10, {1, 1}))},
                     .mark = PlotMark{.column = 9, .text = "top"}};
  EXPECT_THAT(draw(plot, kUtf8), HasSubstr("               "
                                           "     top ▼\n"));
}

TEST(PlotTest, DrawsZeroAsEmpty) {
  const Plot plot = {.series = {area({{0, 0}, {0, 0}})}, .height = 2};
  EXPECT_THAT(draw(plot, kUtf8), HasSubstr("          0 B └──\n"));
}

TEST(PlotTest, PlotIsAsWideAsTerminal) {
  const Plot plot = {
      .series = {area(std::vector<ColumnRange>(plot_columns(kAsciiTerminal), {1, 1}))}};
  const std::string text = draw(plot, kAsciiTerminal);
  EXPECT_EQ(text.find('\n'), 80U);
  EXPECT_GE(plot_columns({.width = 1}), 1U);
}

}  // namespace
}  // namespace ashlar
