// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar top` shows of a process: lines for a screen, or for a pipe. Pure functions of what
// the process has told so far.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "cli/live_numbers.h"
#include "cli/terminal.h"

namespace ashlar {

// Oldest first, at least one.
using LiveSamples = std::deque<LiveNumbers>;

struct TopPage {
  int64_t pid = 0;
  std::string note{};  // a sentence for the last line; empty: how to leave
};

// A whole screen: no line is longer than the terminal is wide, and there are no more than fit.
// Each ends in a line feed. `terminal.width` counts as it is.
std::string top_screen(const LiveSamples& samples, const TopPage& page, const Terminal& terminal);

// One line of headings, and one for each allocator, those of pinned host memory last: the same
// widths each time.
std::string top_headings();
std::string top_lines(const LiveSamples& samples);

}  // namespace ashlar
