// SPDX-License-Identifier: Apache-2.0
//
// Computes column widths, pads cells, and wraps the last column.
#include "cli/terminal/table.h"

#include <algorithm>

#include "base/check.h"
#include "cli/terminal/style.h"

namespace ashlar {
namespace {

constexpr size_t kRightMargin = 100;
constexpr size_t kMinWrapWidth = 30;
constexpr std::string_view kIndent = "  ";
constexpr std::string_view kGap = "  ";

std::vector<size_t> column_widths(const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> widths(lines.front().size());
  for (const std::vector<std::string>& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], text_width(line[i]));
  }
  return widths;
}

// Breaks text into lines at spaces. A line is wider than `width` only if it is a single word.
std::vector<std::string> wrap(std::string_view words, size_t width) {
  std::vector<std::string> lines;
  while (text_width(words) > width) {
    size_t cut = words.rfind(' ', width);
    if (cut == std::string_view::npos) cut = words.find(' ');
    if (cut == std::string_view::npos) break;
    lines.emplace_back(words.substr(0, cut));
    words.remove_prefix(cut + 1);
  }
  lines.emplace_back(words);
  return lines;
}

std::string pad(const std::string& cell, size_t width, Align align) {
  const std::string space(width - std::min(width, text_width(cell)), ' ');
  return align == Align::kLeft ? cell + space : space + cell;
}

void add_line(std::string& text, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  text.append(line).append("\n");
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> cells) {
  ASHLAR_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::to_text() const {
  std::vector<std::vector<std::string>> lines = rows_;
  std::vector<std::string> headings;
  for (const Column& column : columns_) headings.push_back(bold(column.heading));
  const bool has_headings = std::any_of(headings.begin(), headings.end(),
                                        [](const std::string& text) { return !text.empty(); });
  if (has_headings) lines.insert(lines.begin(), headings);
  if (lines.empty()) return {};

  const std::vector<size_t> widths = column_widths(lines);
  const size_t last = columns_.size() - 1;
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    std::string start(kIndent);
    for (size_t i = 0; i < last; ++i) {
      start.append(pad(line[i], widths[i], columns_[i].align)).append(kGap);
    }
    if (columns_[last].align == Align::kRight) {
      add_line(text, start + pad(line[last], widths[last], Align::kRight));
      continue;
    }
    const size_t left = text_width(start);
    const size_t wrap_width = std::max(kMinWrapWidth, kRightMargin - std::min(kRightMargin, left));
    for (const std::string& piece : wrap(line[last], wrap_width)) {
      add_line(text, start + piece);
      start.assign(left, ' ');
    }
  }
  return text;
}

size_t text_width(std::string_view utf8) {
  // Every character has exactly one byte that is not a continuation byte (10xxxxxx).
  const std::string plain = strip_style(utf8);
  return static_cast<size_t>(
      std::count_if(plain.begin(), plain.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

}  // namespace ashlar
