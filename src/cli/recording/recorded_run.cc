// SPDX-License-Identifier: Apache-2.0
//
// Loads recordings with command-line error messages, and formats their title and plot.
#include "cli/recording/recorded_run.h"

#include <fmt/format.h>

#include <new>

#include "base/units.h"
#include "cli/terminal/plot.h"
#include "cli/terminal/stack_text.h"
#include "files/read_snapshot.h"

namespace ashlar {

Result<DeviceRecording> read_run(const std::string& file, std::optional<uint64_t> device) {
  try {
    Result<std::shared_ptr<const Recording>> recording = Recording::open(file);
    if (!recording.ok()) return recording.status();
    Result<DeviceRecording> selected = select_device(*std::move(recording), device);
    if (!selected.ok()) return Status::invalid_argument("--device: " + selected.status().message());
    return selected;
  } catch (const std::bad_alloc&) {
    return out_of_memory_error(file);
  }
}

Result<DeviceRecording> read_history(const std::string& file, std::optional<uint64_t> device,
                                     const Session& session) {
  Result<DeviceRecording> run = read_run(file, device);
  if (!run.ok()) return run;
  if (Status found = require_history(*run); !found.ok()) return found;
  const std::string& ignored = run->recording().ignored_settings();
  if (!ignored.empty()) {
    session.console.print_message("ignoring settings of the recording: " + ignored);
  }
  return run;
}

std::string title_of(const DeviceRecording& run) {
  std::string title = fmt::format("{}, device {}: ", printable(run.name()), run.device().value());
  if (run.trace().empty()) return title + "no trace, only the final state\n";
  title += fmt::format("{} entries", group_digits(run.trace().size()));
  if (const std::optional<double> seconds = run.seconds()) {
    title += fmt::format(" over {:.2f} s", *seconds);
  }
  if (run.allocations().preexisting_count > 0) {
    title += fmt::format("; {} allocations were live before",
                         group_digits(run.allocations().preexisting_count));
  }
  return title + "\n";
}

std::string plot_of(const DeviceRecording& run, const Terminal& terminal) {
  if (run.trace().empty()) return "";
  const Timeline& timeline = run.timeline();
  const size_t columns = plot_columns(terminal);
  Plot plot;
  plot.series = {{.name = "requested",
                  .style = PlotStyle::kArea,
                  .columns = downsample(timeline, Quantity::kRequested, columns)},
                 {.name = "reserved",
                  .style = PlotStyle::kLine,
                  .columns = downsample(timeline, Quantity::kReserved, columns)}};
  plot.mark = {
      .column = column_of(timeline, timeline.requested_peak.entry, columns),
      .text = fmt::format("peak requested: {}", format_bytes(timeline.requested_peak.bytes))};
  plot.begin_text = "entry 0";
  plot.end_text = fmt::format("entry {}", group_digits(run.trace().size() - 1));
  return draw(plot, terminal);
}

}  // namespace ashlar
