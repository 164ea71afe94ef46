// SPDX-License-Identifier: Apache-2.0
//
// The output of `ashlar top`, as a full screen or as lines. Pure functions of the samples.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "cli/live/live_stats.h"
#include "cli/terminal/terminal.h"

namespace ashlar {

// The most recent samples, oldest first; never empty.
using LiveSamples = std::deque<LiveStats>;

struct TopPage {
  int64_t pid = 0;
  std::string note{};  // text of the last line; empty: "q quits"
};

// Formats a full screen: at most `terminal.height` lines (but at least two) of at most
// `terminal.width` columns, each ending in a line feed.
std::string top_screen(const LiveSamples& samples, const TopPage& page, const Terminal& terminal);

// These functions format columns of fixed width: one line of headings, and one line per allocator
// of the newest sample, with pinned host memory last.
std::string top_headings();
std::string top_lines(const LiveSamples& samples);

}  // namespace ashlar
