// SPDX-License-Identifier: Apache-2.0
//
// Draws each series into a grid of characters, then adds the frame.
#include "cli/terminal/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/units.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

// "1023.99 MiB" is the widest label.
constexpr size_t kLabelWidth = 11;
constexpr size_t kMargin = 2 + kLabelWidth + 2;

struct Glyphs {
  std::array<std::string_view, 8> eighths;  // cells filled to 1/8, 2/8, ... 8/8
  std::string_view shade;
  std::array<std::string_view, 4> lines;
  std::string_view mark;
  std::string_view tick;
  std::string_view axis;
  std::string_view corner;
  std::string_view baseline;
};

constexpr Glyphs kUnicode = {.eighths = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
                             .shade = "░",
                             .lines = {"─", "•", "×", "+"},
                             .mark = "▼",
                             .tick = "┤",
                             .axis = "│",
                             .corner = "└",
                             .baseline = "─"};
constexpr Glyphs kAscii = {.eighths = {"_", "_", "_", "#", "#", "#", "#", "#"},
                           .shade = ":",
                           .lines = {"=", "*", "x", "+"},
                           .mark = "v",
                           .tick = "+",
                           .axis = "|",
                           .corner = "+",
                           .baseline = "-"};

class Canvas {
 public:
  Canvas(const Plot& plot, const Glyphs& glyphs);

  std::string to_text() const;

 private:
  void draw_area(const PlotSeries& series);
  void draw_line(const PlotSeries& series, std::string_view glyph);
  size_t eighths_of(size_t bytes) const;
  std::string mark_text() const;
  std::string label_of(size_t row) const;
  std::string axis_text() const;
  std::string legend_text() const;
  std::string_view line_glyph(size_t series) const;

  const Plot& plot_;
  const Glyphs& glyphs_;
  size_t width_;
  size_t highest_bytes_ = 0;
  std::vector<std::vector<std::string_view>> rows_;  // bottom row first
};

Canvas::Canvas(const Plot& plot, const Glyphs& glyphs)
    : plot_(plot), glyphs_(glyphs), width_(plot.series.front().columns.size()) {
  for (const PlotSeries& series : plot.series) {
    for (const ColumnRange& column : series.columns) {
      highest_bytes_ = std::max(highest_bytes_, column.highest);
    }
  }
  rows_.assign(plot.height, std::vector<std::string_view>(width_, " "));
  for (size_t i = 0; i < plot.series.size(); ++i) {
    if (plot.series[i].style == PlotStyle::kArea) {
      draw_area(plot.series[i]);
    } else {
      draw_line(plot.series[i], line_glyph(i));
    }
  }
}

// Returns the height of a value in eighths of a cell: at least 1 if the value is above zero, so
// that it is visible.
size_t Canvas::eighths_of(size_t bytes) const {
  if (bytes == 0) return 0;
  const double part = static_cast<double>(bytes) / static_cast<double>(highest_bytes_);
  const auto eighths =
      static_cast<size_t>(std::lround(part * 8 * static_cast<double>(rows_.size())));
  return std::max<size_t>(eighths, 1);
}

void Canvas::draw_area(const PlotSeries& series) {
  for (size_t x = 0; x < width_; ++x) {
    const size_t full = eighths_of(series.columns[x].lowest);
    const size_t shaded = eighths_of(series.columns[x].highest);
    for (size_t row = 0; row < rows_.size() && row * 8 < shaded; ++row) {
      const size_t in_row = full > row * 8 ? std::min<size_t>(full - row * 8, 8) : 0;
      rows_[row][x] = in_row == 0 ? glyphs_.shade : glyphs_.eighths[in_row - 1];
    }
  }
}

void Canvas::draw_line(const PlotSeries& series, std::string_view glyph) {
  for (size_t x = 0; x < width_; ++x) {
    const size_t eighths = eighths_of(series.columns[x].highest);
    if (eighths > 0) rows_[(eighths - 1) / 8][x] = glyph;
  }
}

// Returns the character of a line series. The first four line series have different characters,
// which further series repeat.
std::string_view Canvas::line_glyph(size_t series) const {
  const auto before =
      std::count_if(plot_.series.begin(), plot_.series.begin() + static_cast<ptrdiff_t>(series),
                    [](const PlotSeries& each) { return each.style == PlotStyle::kLine; });
  return glyphs_.lines[static_cast<size_t>(before) % glyphs_.lines.size()];
}

std::string Canvas::to_text() const {
  std::vector<std::string> lines;
  if (plot_.mark) lines.push_back(mark_text());
  for (size_t row = rows_.size(); row-- > 0;) {
    const std::string label = label_of(row);
    lines.push_back(fmt::format("  {:>{}} {}{}", label, kLabelWidth,
                                label.empty() ? glyphs_.axis : glyphs_.tick,
                                fmt::join(rows_[row], "")));
  }
  std::string baseline;
  for (size_t x = 0; x < width_; ++x) baseline += glyphs_.baseline;
  lines.push_back(fmt::format("  {:>{}} {}{}", "0 B", kLabelWidth, glyphs_.corner, baseline));
  lines.push_back(axis_text());
  lines.push_back(legend_text());

  std::string text;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    text.append(line).append("\n");
  }
  return text;
}

// Returns the line with the mark and its text. The text is to the left of the mark if it fits only
// there, and otherwise to the right.
std::string Canvas::mark_text() const {
  const size_t column = std::min(plot_.mark->column, width_ - 1);
  const size_t needed = text_width(plot_.mark->text) + 1;
  std::string line(kMargin, ' ');
  if (column + needed < width_ || needed > column) {
    line.append(column, ' ');
    return fmt::format("{}{} {}", line, glyphs_.mark, plot_.mark->text);
  }
  line.append(column - needed, ' ');
  return fmt::format("{}{} {}", line, plot_.mark->text, glyphs_.mark);
}

// Returns the label of the row, or "". The top row has a label and, if the height is even, so does
// the row at half the height.
std::string Canvas::label_of(size_t row) const {
  if (row + 1 == rows_.size()) return format_bytes(highest_bytes_);
  if ((row + 1) * 2 == rows_.size()) return format_bytes(highest_bytes_ / 2);
  return "";
}

std::string Canvas::axis_text() const {
  const size_t used = text_width(plot_.begin_text) + text_width(plot_.end_text);
  return fmt::format("{}{}{}{}", std::string(kMargin, ' '), plot_.begin_text,
                     std::string(used < width_ ? width_ - used : 1, ' '), plot_.end_text);
}

std::string Canvas::legend_text() const {
  std::string line(kMargin, ' ');
  for (size_t i = 0; i < plot_.series.size(); ++i) {
    const bool is_line = plot_.series[i].style == PlotStyle::kLine;
    line += fmt::format("{} {}   ", is_line ? line_glyph(i) : glyphs_.eighths.back(),
                        plot_.series[i].name);
  }
  return line;
}

}  // namespace

size_t plot_columns(const Terminal& terminal) {
  return std::max<size_t>(terminal.width, kMargin + 1) - kMargin;
}

std::string draw(const Plot& plot, const Terminal& terminal) {
  return Canvas(plot, terminal.is_utf8 ? kUnicode : kAscii).to_text();
}

}  // namespace ashlar
