// SPDX-License-Identifier: Apache-2.0
//
// Text plots of bytes over time: areas and lines over a common axis.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analysis/timeline.h"
#include "cli/terminal/terminal.h"

namespace ashlar {

enum class PlotStyle {
  kArea,  // filled up to the column's minimum, shaded up to its maximum
  kLine,  // drawn at the column's maximum
};

struct PlotSeries {
  std::string name{};
  PlotStyle style = PlotStyle::kArea;
  std::vector<ColumnRange> columns{};
};

// A label above one column.
struct PlotMark {
  size_t column = 0;
  std::string text{};
};

struct Plot {
  // The series are drawn in this order, later series on top. All have the same number of columns.
  std::vector<PlotSeries> series{};
  std::optional<PlotMark> mark{};
  // Labels of the two ends of the time axis.
  std::string begin_text{};
  std::string end_text{};
  size_t height = 10;
};

// Returns the number of plot columns that fit the terminal.
size_t plot_columns(const Terminal& terminal);

// Draws the plot as text that ends in a line feed. The axis goes from 0 to the maximum of all
// series. Uses block elements on a UTF-8 terminal and ASCII on any other.
// REQUIRES: at least one series with at least one column.
std::string draw(const Plot& plot, const Terminal& terminal);

}  // namespace ashlar
