// SPDX-License-Identifier: Apache-2.0
//
// String building for messages, and line splitting.
#pragma once

#include <algorithm>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>

#include "ashlar/types.h"

namespace ashlar {

// Formats the values with operator<< and concatenates them.
template <typename... Values>
std::string text(const Values&... values) {
  std::ostringstream out;
  out.imbue(std::locale::classic());      // independent of the program's locale
  out.exceptions(std::ios_base::badbit);  // throw if memory runs out, instead of truncating
  (out << ... << values);
  return std::move(out).str();
}

std::ostream& operator<<(std::ostream& out, DeviceAddress address);      // 0x7f0000200000
std::ostream& operator<<(std::ostream& out, PoolId pool);                // {1, 0}
std::ostream& operator<<(std::ostream& out, const AddressRange& range);  // 0x… + 2097152 B

template <typename Tag>
std::ostream& operator<<(std::ostream& out, Id<Tag> id) {
  return out << id.value();
}

// Removes the next line from `text` and returns it without its line ending. The last line may lack
// a line ending.
inline std::string_view take_line(std::string_view& text, std::string_view line_end = "\n") {
  const std::string_view line = text.substr(0, text.find(line_end));
  text.remove_prefix(std::min(line.size() + line_end.size(), text.size()));
  return line;
}

}  // namespace ashlar
