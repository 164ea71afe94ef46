// SPDX-License-Identifier: Apache-2.0
//
// Formats tables with aligned columns for a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

enum class Align { kLeft, kRight };

struct Column {
  std::string heading;  // if every heading is empty, the table has no heading line
  Align align = Align::kLeft;
};

// Each column is as wide as its widest cell. A left-aligned last column wraps at the right margin.
class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // REQUIRES: one cell per column.
  void add(std::vector<std::string> cells);
  // Formats the table, indented by two spaces. The text ends in a line feed. Headings are bold
  // (style.h).
  std::string to_text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns the number of terminal columns that UTF-8 text occupies. Escape sequences of style.h
// occupy no column. REQUIRES: the text has no wide characters.
size_t text_width(std::string_view utf8);

}  // namespace ashlar
