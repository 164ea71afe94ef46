// SPDX-License-Identifier: Apache-2.0
//
// Stacks as people read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ashlar/snapshot.h"

namespace ashlar {

// One line for each frame, the innermost first, at most `most` of them: "forward  llm/model.py:12".
// Never empty: without frames, it says so.
std::vector<std::string> stack_lines(const std::vector<const Frame*>& frames, size_t most);

// What identifies a file to somebody who knows the program: the path within the packages of Python,
// or the last folder and the name.
std::string short_path(std::string_view path);

// Text from a file, made safe for a terminal: no control characters, nothing that is not UTF-8.
std::string printable(std::string_view text);

}  // namespace ashlar
