// SPDX-License-Identifier: Apache-2.0
//
// Reading, and the plot of it all.
#include "cli/recorded_run.h"

#include <fmt/format.h>

#include "base/units.h"
#include "cli/plot.h"
#include "cli/stack_text.h"

namespace ashlar {

Result<RecordedRun> read_run(const std::string& file, std::optional<uint64_t> device) {
  Result<RecordedRun> run = load_run(file, device);
  // The only thing that somebody can have said wrongly, but for the file.
  if (!run.status().is(StatusKind::kInvalidArgument)) return run;
  return Status::invalid_argument("--device: " + run.status().message());
}

Result<RecordedRun> read_history(const std::string& file, std::optional<uint64_t> device,
                                 const Session& session) {
  Result<RecordedRun> run = read_run(file, device);
  if (!run.ok()) return run;
  if (Status found = require_history(*run); !found.ok()) return found;
  if (!run->ignored.empty()) {
    session.console.complain("settings of the recording are left out: " + run->ignored);
  }
  return run;
}

std::string title_of(const RecordedRun& run) {
  std::string title = fmt::format("{}, device {}: ", printable(run.file), run.device.value());
  if (run.trace().empty()) return title + "no trace, only what was there at the end\n";
  title += fmt::format("{} entries", group_digits(run.trace().size()));
  if (const std::optional<double> seconds = run.seconds()) {
    title += fmt::format(" over {:.2f} s", *seconds);
  }
  if (run.allocations.before_count > 0) {
    title += fmt::format("; {} allocations were there before",
                         group_digits(run.allocations.before_count));
  }
  return title + "\n";
}

std::string plot_of(const RecordedRun& run, const Terminal& terminal) {
  if (run.trace().empty()) return "";
  const Timeline& timeline = run.timeline;
  const size_t columns = plot_columns(terminal);
  Plot plot;
  plot.series = {{.name = "requested",
                  .style = PlotStyle::kArea,
                  .columns = downsample(timeline, Quantity::kRequested, columns)},
                 {.name = "reserved",
                  .style = PlotStyle::kLine,
                  .columns = downsample(timeline, Quantity::kReserved, columns)}};
  plot.mark = {.column = column_of(timeline, timeline.requested.entry, columns),
               .text = fmt::format("most requested: {}", format_bytes(timeline.requested.bytes))};
  plot.begin_text = "entry 0";
  plot.end_text = fmt::format("entry {}", group_digits(run.trace().size() - 1));
  return draw(plot, terminal);
}

}  // namespace ashlar
