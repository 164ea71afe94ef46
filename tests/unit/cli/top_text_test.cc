// SPDX-License-Identifier: Apache-2.0
//
// Tests the output of `ashlar top`.
#include "cli/live/top_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

LiveStats sample(double seconds, uint64_t allocations) {
  LiveAllocatorStats allocator;
  allocator.backend = "sim";
  allocator.engine = "paged";
  allocator.reserved_bytes = 64 * kMiB;
  allocator.allocated_bytes = 48 * kMiB;
  allocator.allocations = allocations;
  allocator.device_calls = 3;
  LiveStats stats;
  stats.program = "train";
  stats.version = "0.1.0";
  stats.monitored_seconds = seconds;
  stats.allocators = {allocator};
  return stats;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(TopTextTest, ComputesRatesFromLastTwoSamples) {
  EXPECT_THAT(top_lines({sample(1, 100)}), HasSubstr("        -        -"));
  EXPECT_THAT(top_lines({sample(1, 0), sample(2, 100), sample(4, 150)}),
              HasSubstr("     25.0      0.0"));
  EXPECT_THAT(top_lines({sample(1, 0), sample(2, 5'000'000)}), HasSubstr(" 5,000,000"));
  EXPECT_THAT(top_lines({sample(2, 100), sample(4, 50)}), HasSubstr("        -      0.0"))
      << "counters were reset";
  EXPECT_THAT(top_lines({sample(4, 100), sample(4, 150)}), HasSubstr("        -        -"));
}

TEST(TopTextTest, ShowsPinnedMemoryIfAny) {
  EXPECT_THAT(top_lines({sample(1, 100)}), Not(HasSubstr("pinned")));
  const auto pinned_sample = [](double seconds, uint64_t allocations, uint64_t calls) {
    LiveStats stats = sample(seconds, 0);
    LiveHostStats host;
    host.backend = "s\x1bm";
    host.reserved_bytes = 32 * kMiB;
    host.allocations = allocations;
    host.host_calls = calls;
    stats.host_allocators = {host};
    return stats;
  };
  const std::vector<std::string> lines =
      lines_of(top_lines({pinned_sample(1, 10, 2), pinned_sample(3, 30, 5)}));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[1], AllOf(HasSubstr(" h0 s?m:0    pinned    32.00 MiB"),
                              HasSubstr("     10.0      1.5")));
  EXPECT_EQ(text_width(lines[1]), text_width(lines[0]));
}

TEST(TopTextTest, ScreenFitsTerminal) {
  LiveSamples samples;
  for (int i = 0; i < 500; ++i) samples.push_back(sample(i, 1));
  for (const size_t width : {60U, 80U, 160U}) {
    for (const size_t height : {1U, 2U, 5U, 12U, 24U, 60U}) {
      Terminal terminal;
      terminal.width = width;
      terminal.height = height;
      terminal.is_utf8 = true;
      const std::string screen = top_screen(samples, {.pid = 7, .note = ""}, terminal);
      EXPECT_THAT(screen, EndsWith("q quits\n"));
      EXPECT_LE(lines_of(screen).size(), std::max<size_t>(height, 2));
      for (const std::string& line : lines_of(screen)) EXPECT_LE(text_width(line), width) << line;
    }
  }
}

TEST(TopTextTest, DrawsPlotIfSpaceAllows) {
  Terminal terminal;
  const std::string screen =
      top_screen({sample(1, 1), sample(2, 1)}, {.pid = 7, .note = ""}, terminal);
  EXPECT_THAT(screen, AllOf(HasSubstr("train, process 7: Ashlar 0.1.0, monitored for 2 s"),
                            HasSubstr("allocated"), HasSubstr("now"), HasSubstr("64.00 MiB")));
  terminal.height = 8;
  EXPECT_THAT(top_screen({sample(1, 1)}, {.pid = 7, .note = ""}, terminal), Not(HasSubstr("now")));
}

TEST(TopTextTest, SanitizesTextOfProcess) {
  LiveStats hostile = sample(1, 1);
  hostile.program = "\x1b[2J\x07oops\xc2\x9b";
  hostile.setup_error = "\x1b]0;title\x07\n\nlines";
  hostile.allocators[0].engine = "a\nb";
  hostile.allocators[0].backend = "\x1b[31m";
  const std::string screen = top_screen({hostile}, {.pid = 7, .note = "\x1b"}, Terminal());
  EXPECT_THAT(screen, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")),
                            Not(HasSubstr("\xc2\x9b")), HasSubstr("oops"), HasSubstr("a?b")));
  EXPECT_THAT(top_lines({hostile}), Not(HasSubstr("\x1b")));
}

TEST(TopTextTest, StatesThatThereIsNoAllocator) {
  LiveStats empty = sample(1, 1);
  empty.allocators.clear();
  EXPECT_THAT(top_screen({empty}, {.pid = 7, .note = "a note"}, Terminal()),
              AllOf(HasSubstr("no allocator yet"), EndsWith("a note\n")));
}

}  // namespace
}  // namespace ashlar
