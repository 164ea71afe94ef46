// SPDX-License-Identifier: Apache-2.0
//
// Loads recordings with command-line error messages, and formats their title and plot.
#include "cli/recording/recorded_run.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <map>
#include <new>

#include "analysis/report_json/tune_json.h"
#include "base/units.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/plot.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/table.h"
#include "files/read_snapshot.h"

namespace ashlar {

std::string count_text(size_t count, const char* singular, const char* plural) {
  return group_digits(count) + " " + (count == 1 ? singular : plural);
}

void add_stacks_option(CLI::App& parser, StackDetail& detail) {
  static const std::map<std::string, StackDetail> details = {{"user", StackDetail::kUserCode},
                                                             {"full", StackDetail::kFull}};
  parser
      .add_option_function<std::string>(
          "--stacks", [&detail](const std::string& name) { detail = details.at(name); },
          "user: group by the frames of your code and show the innermost; full: by all frames")
      ->check(CLI::IsMember(&details))
      ->default_str("user");
}

void add_source_option(CLI::App& parser, std::vector<std::string>& folders) {
  parser.add_option("--source", folders, "Folder with source files (/: all); may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

Result<SourceFolders> source_folders(const std::vector<std::string>& folders) {
  SourceFolders found;
  for (const std::string& folder : folders) {
    if (Status added = found.add(folder); !added.ok()) {
      return Status::invalid_argument("--source: " + added.message());
    }
  }
  return found;
}

std::vector<std::string> stack_lines_of(const StackIndex& stacks, uint32_t number,
                                        StackDetail detail) {
  return stack_lines(stacks.frames(number), detail == StackDetail::kFull ? SIZE_MAX : kFramesShown);
}

std::string lines_note(const StackIndex& stacks) {
  return stacks.lacks_lines() ? "\nCompile with -g to see the lines of C++ functions.\n" : "";
}

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
  const std::string& ignored = run->recording().ignored_settings();
  if (!ignored.empty()) {
    session.console.print_message("ignoring settings of the recording: " + ignored);
  }
  return run;
}

std::string paragraph(const std::string& text) {
  Table table({Column()});
  table.add({text});
  return table.to_text();
}

std::string assumption_lines(const DeviceRecording& run) {
  const std::string text = assumption_text(run);
  return text.empty() ? "" : paragraph(text);
}

std::string other_devices_text(const DeviceRecording& run) {
  std::string text;
  for (const DeviceSummary& other : run.recording().other_devices(run.device())) {
    text += fmt::format("{}device {}: {}{}", text.empty() ? "" : "; ", other.device.value(),
                        format_bytes(other.peak_reserved_bytes),
                        other.oom_count > 0 ? ", out of memory" : "");
  }
  if (text.empty()) return text;
  return fmt::format("Other devices, by peak reserved: {} (see --device)\n", text);
}

ExitCode print_no_history(const DeviceRecording& run, HistoryQuestion question, bool json,
                          const Session& session) {
  session.console.print(json ? format_json(no_history_json(run, question))
                             : title_of(run) + paragraph(no_history_text(run, question)));
  return ExitCode::kSuccess;
}

std::string title_of(const DeviceRecording& run) {
  std::string title = fmt::format("{}, device {}: ", printable(run.name()), run.device().value());
  if (!run.has_history()) {
    title += "no history, only the final state";
  } else {
    title += count_text(run.trace().size(), "entry", "entries");
  }
  if (const std::optional<double> seconds = run.seconds()) {
    title += fmt::format(" over {:.2f} s", *seconds);
  }
  if (run.allocations().preexisting_count > 0 && run.has_history()) {
    title += fmt::format(
        "; {} made before the recording",
        count_text(run.allocations().preexisting_count, "allocation was", "allocations were"));
  }
  return title + "\n" + other_devices_text(run);
}

std::string plot_of(const DeviceRecording& run, const Terminal& terminal) {
  if (!run.has_history()) return "";
  const Timeline& timeline = run.timeline();
  const size_t columns = plot_columns(terminal);
  Plot plot;
  plot.series = {{.name = "requested",
                  .style = PlotStyle::kArea,
                  .columns = downsample(timeline, Quantity::kRequested, columns)},
                 {.name = "reserved",
                  .style = PlotStyle::kLine,
                  .columns = downsample(timeline, Quantity::kReserved, columns)}};
  const std::optional<uint32_t>& peak = timeline.reserved_peak.entry;
  plot.mark = {
      .column = column_of(timeline, peak, columns),
      .text = fmt::format("peak: {} requested", format_bytes(timeline.at(peak).requested_bytes()))};
  plot.begin_text = "entry 0";
  plot.end_text = fmt::format("entry {}", group_digits(run.trace().size() - 1));
  return draw(plot, terminal);
}

}  // namespace ashlar
