// SPDX-License-Identifier: Apache-2.0
//
// Text in columns, for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

enum class Align { kLeft, kRight };

struct Column {
  std::string heading;  // all columns without one: no line of headings
  Align align = Align::kLeft;
};

// Every column is as wide as its widest cell; the last one, when aligned to the left, continues on
// further lines where it would pass the right margin.
class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // REQUIRES: as many cells as there are columns.
  void add(std::vector<std::string> cells);
  // Indented by two columns; ends in a line feed.
  std::string to_text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// How many columns a terminal needs for UTF-8 text without wide characters.
size_t text_width(std::string_view utf8);

}  // namespace ashlar
