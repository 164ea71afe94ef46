// SPDX-License-Identifier: Apache-2.0
//
// Text, line by line. Pure functions.
#pragma once

#include <algorithm>
#include <string_view>

namespace ashlar {

// Takes the next line off the front, and its end with it. The last one may have no end.
inline std::string_view take_line(std::string_view& text, std::string_view line_end = "\n") {
  const std::string_view line = text.substr(0, text.find(line_end));
  text.remove_prefix(std::min(line.size() + line_end.size(), text.size()));
  return line;
}

}  // namespace ashlar
