// SPDX-License-Identifier: Apache-2.0
//
// A heading, a row for each allocator, and a picture of the last minutes as far as there is room.
#include "cli/top_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "cli/plot.h"
#include "cli/stack_text.h"
#include "cli/table.h"

namespace ashlar {
namespace {

constexpr size_t kLeastPlotHeight = 4;
constexpr size_t kMostPlotHeight = 16;
constexpr size_t kPlotFrame = 3;  // lines that a picture has besides its height

// "12.5" per second since the sample before; "-" where it is not known.
template <typename Numbers>
std::string rate(const LiveSamples& samples, std::vector<Numbers> LiveNumbers::*list,
                 const Numbers& of, uint64_t Numbers::*counter) {
  if (samples.size() < 2) return "-";
  const LiveNumbers& now = samples.back();
  const LiveNumbers& before = samples[samples.size() - 2];
  const double seconds = now.shown_seconds - before.shown_seconds;
  const auto then = std::find_if((before.*list).begin(), (before.*list).end(),
                                 [&](const Numbers& each) { return each.number == of.number; });
  // A counter that was reset, or another process of the same number.
  if (then == (before.*list).end() || seconds <= 0 || of.*counter < *then.*counter) return "-";
  const double per_second = static_cast<double>(of.*counter - *then.*counter) / seconds;
  return per_second < 1000 ? fmt::format("{:.1f}", per_second)
                           : group_digits(static_cast<uint64_t>(std::min(per_second, 1e18)));
}

// What matters most stands on the left: a narrow terminal shows no more.
constexpr const char* kColumns =
    "{:>3} {:<8} {:<7} {:>11} {:>11} {:>11} {:>11} {:>5} {:>5} {:>9} {:>8} {:>9}\n";

struct RowParts {
  std::string number{};
  std::string engine{};
  std::string allocations_rate{};
  std::string calls_rate{};
};

std::string row(const MemoryNumbers& of, const RowParts& parts) {
  return fmt::format(fmt::runtime(kColumns), parts.number,
                     fmt::format("{}:{}", printable(of.backend), of.device), parts.engine,
                     format_bytes(of.reserved_bytes), format_bytes(of.reserved_peak_bytes),
                     format_bytes(of.allocated_bytes), format_bytes(of.requested_bytes), of.ooms,
                     of.retries, parts.allocations_rate, parts.calls_rate, group_digits(of.blocks));
}

std::string row(const AllocatorNumbers& of, const LiveSamples& samples) {
  const auto per_second = [&](uint64_t AllocatorNumbers::*counter) {
    return rate(samples, &LiveNumbers::allocators, of, counter);
  };
  return row(of, RowParts{std::to_string(of.number), printable(of.engine),
                          per_second(&AllocatorNumbers::allocations),
                          per_second(&AllocatorNumbers::device_calls)});
}

// Counted for themselves: "h0" is not allocator 0.
std::string row(const HostNumbers& of, const LiveSamples& samples) {
  const auto per_second = [&](uint64_t HostNumbers::*counter) {
    return rate(samples, &LiveNumbers::host_allocators, of, counter);
  };
  return row(
      of, RowParts{fmt::format("h{}", of.number), "pinned", per_second(&HostNumbers::allocations),
                   per_second(&HostNumbers::host_calls)});
}

// The first so many columns. What was printable() or is ours has no wide characters.
std::string clipped(std::string_view line, size_t width) {
  size_t end = 0;
  for (size_t columns = 0; end < line.size(); ++end) {
    const bool is_first_byte = (static_cast<uint8_t>(line[end]) & 0xc0) != 0x80;
    if (is_first_byte && columns++ == width) break;
  }
  return std::string(line.substr(0, end));
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(take_line(text));
  return lines;
}

PlotSeries series(const LiveSamples& samples, std::string name,
                  uint64_t AllocatorNumbers::*quantity) {
  PlotSeries made;
  made.name = std::move(name);
  for (const LiveNumbers& each : samples) {
    const size_t bytes = each.total(quantity);
    made.columns.push_back({bytes, bytes});
  }
  return made;
}

// The newest samples, as many as there are columns for, the rest empty on the left.
std::string picture(const LiveSamples& samples, const Terminal& terminal, size_t height) {
  Plot plot;
  plot.height = height;
  plot.series.push_back(series(samples, "reserved", &AllocatorNumbers::reserved_bytes));
  plot.series.back().style = PlotStyle::kLine;
  plot.series.insert(plot.series.begin(),
                     series(samples, "allocated", &AllocatorNumbers::allocated_bytes));
  const size_t columns = plot_columns(terminal);
  size_t shown = samples.size();
  for (PlotSeries& each : plot.series) {
    const size_t count = each.columns.size();
    shown = std::min(columns, count);
    each.columns.erase(each.columns.begin(), each.columns.end() - static_cast<long>(shown));
    each.columns.insert(each.columns.begin(), columns - shown, {});
  }
  const double seconds =
      samples.back().shown_seconds - samples[samples.size() - shown].shown_seconds;
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
  for (const AllocatorNumbers& each : samples.back().allocators) {
    lines += row(each, samples);
  }
  for (const HostNumbers& each : samples.back().host_allocators) lines += row(each, samples);
  return lines;
}

std::string top_screen(const LiveSamples& samples, const TopPage& page, const Terminal& terminal) {
  const LiveNumbers& now = samples.back();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{}, process {}: Ashlar {}, shown for {:.0f} s",
                              printable(now.program), page.pid, printable(now.version),
                              now.shown_seconds));
  if (!now.trouble.empty()) lines.push_back("! " + printable(now.trouble));
  lines.emplace_back();
  const std::string table = top_headings() + top_lines(samples);
  for (std::string& each : lines_of(table)) lines.push_back(std::move(each));
  if (now.allocators.empty()) lines.emplace_back("  there is no allocator yet");
  lines.emplace_back();

  // The last line is the note's.
  const size_t height = std::max<size_t>(terminal.height, 2);
  const size_t free_lines = height > lines.size() + 1 ? height - lines.size() - 1 : 0;
  if (free_lines >= kLeastPlotHeight + kPlotFrame && !now.allocators.empty()) {
    const size_t plot_height = std::min(free_lines - kPlotFrame, kMostPlotHeight);
    for (std::string& each : lines_of(picture(samples, terminal, plot_height))) {
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
