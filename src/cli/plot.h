// SPDX-License-Identifier: Apache-2.0
//
// Bytes over time, drawn with characters: areas and lines over a common axis.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analysis/timeline.h"
#include "cli/terminal.h"

namespace ashlar {

enum class PlotStyle {
  kArea,  // full up to the lowest value of a column, shaded up to the highest
  kLine,  // at the highest value
};

struct PlotSeries {
  std::string name{};
  PlotStyle style = PlotStyle::kArea;
  std::vector<ColumnRange> columns{};
};

// Drawn above a column.
struct PlotMark {
  size_t column = 0;
  std::string text{};
};

struct Plot {
  // Those that come later are drawn over the earlier ones. All with as many columns.
  std::vector<PlotSeries> series{};
  std::optional<PlotMark> mark{};
  // Below the two ends of the axis.
  std::string begin_text{};
  std::string end_text{};
  size_t height = 10;
};

// How many columns there is room for.
size_t plot_columns(const Terminal& terminal);

// Ends in a line feed. The axis goes from 0 to the highest value of all series. With UTF-8, areas
// are drawn with block elements, and otherwise with ASCII.
// REQUIRES: a series, and at least one column.
std::string draw(const Plot& plot, const Terminal& terminal);

}  // namespace ashlar
