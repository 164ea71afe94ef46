// SPDX-License-Identifier: Apache-2.0
//
// Formats a title, one row per allocator, and a plot of the recent samples if there is space.
#include "cli/live/top_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "cli/terminal/plot.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

constexpr size_t kMinPlotHeight = 4;
constexpr size_t kMaxPlotHeight = 16;
constexpr size_t kPlotFrameHeight = 3;  // lines of a plot in addition to Plot::height

// Formats the increase per second since the previous sample: "12.5", or "-" if unknown.
template <typename Stats>
std::string rate(const LiveSamples& samples, std::vector<Stats> LiveStats::*list,
                 const Stats& stats, uint64_t Stats::*counter) {
  if (samples.size() < 2) return "-";
  const LiveStats& now = samples.back();
  const LiveStats& previous = samples[samples.size() - 2];
  const double seconds = now.monitored_seconds - previous.monitored_seconds;
  const auto then = std::find_if((previous.*list).begin(), (previous.*list).end(),
                                 [&](const Stats& each) { return each.number == stats.number; });
  // The rate is unknown if the allocator is new, the counter was reset, or the PID was reused.
  if (then == (previous.*list).end() || seconds <= 0 || stats.*counter < *then.*counter) return "-";
  const double per_second = static_cast<double>(stats.*counter - *then.*counter) / seconds;
  return per_second < 1000 ? fmt::format("{:.1f}", per_second)
                           : group_digits(static_cast<uint64_t>(std::min(per_second, 1e18)));
}

// The columns are in descending order of importance, because a narrow terminal cuts off the columns
// on the right.
constexpr const char* kColumns =
    "{:>3} {:<8} {:<7} {:>11} {:>11} {:>11} {:>11} {:>5} {:>5} {:>9} {:>8} {:>9}\n";

struct RowCells {
  std::string number{};
  std::string engine{};
  std::string allocations_rate{};
  std::string calls_rate{};
};

std::string row_text(const LiveMemoryStats& stats, const RowCells& cells) {
  return fmt::format(fmt::runtime(kColumns), cells.number,
                     fmt::format("{}:{}", printable(stats.backend), stats.device), cells.engine,
                     format_bytes(stats.reserved_bytes), format_bytes(stats.reserved_peak_bytes),
                     format_bytes(stats.allocated_bytes), format_bytes(stats.requested_bytes),
                     stats.ooms, stats.retries, cells.allocations_rate, cells.calls_rate,
                     group_digits(stats.blocks));
}

std::string row_text(const LiveAllocatorStats& stats, const LiveSamples& samples) {
  const auto per_second = [&](uint64_t LiveAllocatorStats::*counter) {
    return rate(samples, &LiveStats::allocators, stats, counter);
  };
  return row_text(stats, RowCells{std::to_string(stats.number), printable(stats.engine),
                                  per_second(&LiveAllocatorStats::allocations),
                                  per_second(&LiveAllocatorStats::device_calls)});
}

// Formats the row of a host allocator. Host allocators are numbered separately, with the prefix
// "h".
std::string row_text(const LiveHostStats& stats, const LiveSamples& samples) {
  const auto per_second = [&](uint64_t LiveHostStats::*counter) {
    return rate(samples, &LiveStats::host_allocators, stats, counter);
  };
  return row_text(stats, RowCells{fmt::format("h{}", stats.number), "pinned",
                                  per_second(&LiveHostStats::allocations),
                                  per_second(&LiveHostStats::host_calls)});
}

// Returns the first `width` columns of `line`. REQUIRES: `line` has no wide characters.
std::string clipped(std::string_view line, size_t width) {
  size_t end = 0;
  for (size_t columns = 0; end < line.size(); ++end) {
    const bool is_first_byte = (static_cast<uint8_t>(line[end]) & 0xc0) != 0x80;
    if (is_first_byte && columns++ == width) break;
  }
  return std::string(line.substr(0, end));
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(take_line(text));
  return lines;
}

PlotSeries series(const LiveSamples& samples, std::string name,
                  uint64_t LiveAllocatorStats::*quantity) {
  PlotSeries made;
  made.name = std::move(name);
  for (const LiveStats& each : samples) {
    const size_t bytes = each.total(quantity);
    made.columns.push_back({bytes, bytes});
  }
  return made;
}

// Plots the newest samples, one per column, right-aligned.
std::string plot_text(const LiveSamples& samples, const Terminal& terminal, size_t height) {
  Plot plot;
  plot.height = height;
  plot.series.push_back(series(samples, "reserved", &LiveAllocatorStats::reserved_bytes));
  plot.series.back().style = PlotStyle::kLine;
  plot.series.insert(plot.series.begin(),
                     series(samples, "allocated", &LiveAllocatorStats::allocated_bytes));
  const size_t columns = plot_columns(terminal);
  size_t shown = samples.size();
  for (PlotSeries& each : plot.series) {
    const size_t count = each.columns.size();
    shown = std::min(columns, count);
    each.columns.erase(each.columns.begin(), each.columns.end() - static_cast<long>(shown));
    each.columns.insert(each.columns.begin(), columns - shown, {});
  }
  const double seconds =
      samples.back().monitored_seconds - samples[samples.size() - shown].monitored_seconds;
  plot.begin_text = shown == columns ? fmt::format("{:.0f} s ago", seconds) : "";
  plot.end_text = "now";
  return draw(plot, terminal);
}

}  // namespace

std::string top_headings() {
  return fmt::format(fmt::runtime(kColumns), "#", "device", "engine", "reserved", "peak",
                     "allocated", "requested", "ooms", "retry", "allocs/s", "driver/s", "blocks");
}

std::string top_lines(const LiveSamples& samples) {
  std::string lines;
  for (const LiveAllocatorStats& each : samples.back().allocators) {
    lines += row_text(each, samples);
  }
  for (const LiveHostStats& each : samples.back().host_allocators) lines += row_text(each, samples);
  return lines;
}

std::string top_screen(const LiveSamples& samples, const TopPage& page, const Terminal& terminal) {
  const LiveStats& now = samples.back();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{}, process {}: Ashlar {}, monitored for {:.0f} s",
                              printable(now.program), page.pid, printable(now.version),
                              now.monitored_seconds));
  if (!now.setup_error.empty()) lines.push_back("! " + printable(now.setup_error));
  lines.emplace_back();
  const std::string table = top_headings() + top_lines(samples);
  for (std::string& each : split_lines(table)) lines.push_back(std::move(each));
  if (now.allocators.empty()) lines.emplace_back("  no allocator yet");
  lines.emplace_back();

  // The last line is reserved for the note.
  const size_t height = std::max<size_t>(terminal.height, 2);
  const size_t free_lines = height > lines.size() + 1 ? height - lines.size() - 1 : 0;
  if (free_lines >= kMinPlotHeight + kPlotFrameHeight && !now.allocators.empty()) {
    const size_t plot_height = std::min(free_lines - kPlotFrameHeight, kMaxPlotHeight);
    for (std::string& each : split_lines(plot_text(samples, terminal, plot_height))) {
      lines.push_back(std::move(each));
    }
  }
  if (lines.size() > height - 1) lines.resize(height - 1);
  lines.push_back(page.note.empty() ? "q quits" : printable(page.note));

  std::string screen;
  for (const std::string& each : lines) screen += clipped(each, terminal.width) + "\n";
  return screen;
}

}  // namespace ashlar
