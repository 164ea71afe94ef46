// SPDX-License-Identifier: Apache-2.0
//
// Formats call stacks, which may come from untrusted files, for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/snapshot.h"
#include "format/utf8.h"

namespace ashlar {

// Number of frames shown per stack in tables.
inline constexpr size_t kFramesShown = 3;

// Returns one line per frame, innermost first, at most `max_frames` of them: "forward
// llm/model.py:12". C++ names are shown without parameters, and unknown files and lines are left
// out. Never empty: without frames, one line states that no stack was recorded.
std::vector<std::string> stack_lines(const std::vector<const Frame*>& frames, size_t max_frames);

// Makes the text printable and, if it has more than `max_characters`, cuts it off and appends
// "...".
std::string shortened(std::string_view text, size_t max_characters);

// Shortens a path to the part after site-packages or dist-packages or, if it has neither, to the
// last folder and the file name.
std::string short_path(std::string_view path);

}  // namespace ashlar
