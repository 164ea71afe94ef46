// SPDX-License-Identifier: Apache-2.0
//
// `ashlar report`: a one-page summary of a recorded run with its peaks, the causes of unused
// reserved memory, the largest stacks, and advice.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/report_json/report_json.h"
#include "analysis/report_json/training_json.h"
#include "base/units.h"
#include "cli/recording/recorded_run.h"
#include "cli/recording/training_report.h"
#include "cli/recording/user_groups.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

struct ReportArguments {
  std::string file{};
  std::optional<uint64_t> device{};
  size_t top = 5;
  StackDetail stacks = StackDetail::kUserCode;
  std::string by = "stack";
  std::vector<std::string> groups{};
  std::string groups_file{};
  bool json = false;

  std::optional<GroupBy> group_by() const { return parse_group_by(by); }  // unset: by stack
};

CommandFunction prepare_report(CLI::App& parser);
ExitCode run_report(const ReportArguments& arguments, const Session& session);

}  // namespace

const Subcommand kReport = {
    .name = "report",
    .summary = "Summarize a recorded run: peaks, causes of fragmentation, advice",
    .prepare = prepare_report,
};

namespace {

CommandFunction prepare_report(CLI::App& parser) {
  auto arguments = std::make_shared<ReportArguments>();
  parser.add_option("FILE", arguments->file, kSnapshotHelp)->type_name("FILE")->required();
  parser.add_option("--device", arguments->device, kDeviceHelp);
  parser.add_option("--top", arguments->top, "Number of stacks to show")->capture_default_str();
  add_stacks_option(parser, arguments->stacks);
  parser.add_option("--by", arguments->by, "Group what is live at the peak by this")
      ->check(CLI::IsMember({"stack", "category", "phase", "iteration", "annotation", "context"}))
      ->capture_default_str();
  parser
      .add_option("--group", arguments->groups,
                  "Sum up stacks with a frame (\"function file:line\") that matches; "
                  "may be repeated")
      ->type_name("NAME=REGEX")
      ->allow_extra_args(false);
  parser.add_option("--groups", arguments->groups_file, "File with one NAME=REGEX per line")
      ->type_name("FILE");
  add_json_flag(parser, arguments->json);
  return [arguments](const Session& session) { return run_report(*arguments, session); };
}

std::string peaks_as_text(const Report& report) {
  Table table({{}, {{}, Align::kRight}, {}});
  table.add({"requested", format_bytes(report.peak_requested_bytes), "by the program"});
  if (report.replayed) {
    const int64_t allocated = report.replayed->stats.allocated_bytes.all.peak;
    table.add({"allocated", format_bytes(static_cast<size_t>(allocated)),
               "in blocks, after rounding (replayed)"});
  }
  const double times = static_cast<double>(report.peak_reserved_bytes) /
                       static_cast<double>(std::max<size_t>(report.peak_requested_bytes, 1));
  table.add({"reserved", format_bytes(report.peak_reserved_bytes),
             fmt::format("from the device, {:.2f} × requested", times)});
  if (report.replayed) {
    table.add({"lower bound", format_bytes(report.bound.requested_bytes),
               fmt::format("{}the best layout found needs {}",
                           report.bound.requested_bytes > report.peak_requested_bytes
                               ? "with the request that failed; "
                               : "",
                           format_bytes(report.bound.packed_bytes))});
  }
  std::string text =
      bold(report.replayed ? "Peaks" : "Memory at the snapshot") + "\n" + table.to_text();
  if (const std::string warning = fidelity_warning(report); !warning.empty()) {
    Table lines({Column()});
    lines.add({warning});
    text += lines.to_text();
  }
  return text;
}

// Returns a sentence if the requested bytes have their peak at another moment than the one that
// the report explains.
std::string requested_peak_as_text(const DeviceRecording& run) {
  const Timeline& timeline = run.timeline();
  const Peak& requested = timeline.requested_peak;
  const TimelinePoint& explained = timeline.at(timeline.reserved_peak.entry);
  if (!run.has_history() || explained.requested_bytes() == requested.bytes) return {};
  return fmt::format(
      "Requested memory was at its peak of {} {}, when {} was reserved.\n",
      format_bytes(requested.bytes),
      requested.entry ? "at entry " + group_digits(*requested.entry) : "before the first entry",
      format_bytes(timeline.at(requested.entry).reserved_bytes));
}

// Describes the growth that reached the peak, and the request that needed the memory.
std::string growth_as_text(const DeviceRecording& run, const Report& report, StackDetail detail) {
  if (!report.replayed || report.peak_reserved_bytes == 0) return {};
  if (!report.last_growth) {
    return fmt::format("Reserved memory was at its peak of {} before the first entry.\n",
                       format_bytes(report.peak_reserved_bytes));
  }
  const Growth& growth = *report.last_growth;
  std::string text =
      fmt::format("Reserved memory last grew to its peak at entry {}, by {}",
                  group_digits(growth.request.value_or(growth.entry)), format_bytes(growth.bytes));
  if (!growth.request) return text + ".\n";
  const TraceEntry& request = run.trace()[*growth.request];
  text += fmt::format(", for a request of {}", format_bytes(request.bytes));
  if (run.recording().frames(request.stack, detail).empty()) return text + ".\n";
  const uint32_t number = stack_number(run.recording().stack_numbers(detail), request.stack);
  Table table({{}, {}});
  for (const std::string& line : stack_lines_of(run.recording().stacks(detail), number, detail)) {
    table.add({"", line});
  }
  return text + ":\n" + table.to_text();
}

std::string causes_as_text(const Report& report) {
  const GapCauses& causes = report.causes;
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}});
  for (const CauseRow& row : cause_rows(causes)) {
    if (row.bytes == 0) continue;
    table.add(
        {format_bytes(row.bytes), format_percent(row.bytes, causes.gap_bytes()), row.description});
  }
  const std::string heading =
      fmt::format("Reserved but unused at {}: {} ({} reserved, {} requested)",
                  report.replayed ? "the peak" : "the snapshot", format_bytes(causes.gap_bytes()),
                  format_bytes(causes.reserved_bytes()), format_bytes(causes.requested_bytes));
  return fmt::format("{}\n{}", bold(heading), table.to_text());
}

std::string stacks_as_text(const Report& report, const std::vector<StackTotal>& stack_totals,
                           const StackIndex& stacks, const ReportArguments& arguments) {
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}});
  for (size_t i = 0; i < std::min(stack_totals.size(), arguments.top); ++i) {
    const std::vector<std::string> lines =
        stack_lines_of(stacks, stack_totals[i].stack, arguments.stacks);
    table.add({format_bytes(stack_totals[i].bytes),
               fmt::format("{} x", group_digits(stack_totals[i].count)), lines.front()});
    for (size_t line = 1; line < lines.size(); ++line) table.add({"", "", lines[line]});
  }
  const char* heading =
      report.replayed ? "Largest stacks at the peak" : "Largest stacks at the snapshot";
  return bold(heading) + "\n" + table.to_text() + lines_note(stacks);
}

// Returns an empty string if reserved memory grew during the recording, because the report then
// explains a peak, not the final state.
std::string empty_cache_as_text(const Report& report) {
  if (report.last_growth || report.peak_reserved_bytes == 0) return {};
  return fmt::format("torch.cuda.empty_cache() would return {} to the device{}.\n",
                     format_bytes(report.releasable_bytes),
                     report.replayed ? " at the end of the history" : "");
}

Result<UserGroups> user_groups(const ReportArguments& arguments) {
  UserGroups groups;
  for (const std::string& definition : arguments.groups) {
    if (Status added = groups.add(definition); !added.ok()) return added;
  }
  if (!arguments.groups_file.empty()) {
    if (Status added = groups.add_file(arguments.groups_file); !added.ok()) return added;
  }
  return groups;
}

std::string at_peak_as_text(const DeviceRecording& run, const Report& report,
                            const ReportArguments& arguments, const UserGroups& groups) {
  if (!groups.is_empty()) {
    return groups_as_text(run, "group", groups.group(run, allocations_at_peak(run)), arguments.top);
  }
  if (const std::optional<GroupBy> by = arguments.group_by()) {
    return groups_by_as_text(run, *by, arguments.top);
  }
  return stacks_as_text(report, stacks_at_peak(run, report, arguments.stacks),
                        run.recording().stacks(arguments.stacks), arguments);
}

std::string advice_as_text(const std::vector<std::string>& advice) {
  Table table({{}, {}});
  for (const std::string& line : advice) table.add({"*", line});
  return bold("Advice") + "\n" + table.to_text();
}

ExitCode run_report(const ReportArguments& arguments, const Session& session) {
  const Result<UserGroups> groups = user_groups(arguments);
  if (!groups.ok()) return print_failure(groups.status(), session);
  const Result<DeviceRecording> run = read_history(arguments.file, arguments.device, session);
  if (!run.ok()) return print_failure(run.status(), session);
  const Result<Report> report = report_recording(*run);
  if (!report.ok()) return print_failure(report.status(), session);
  if (arguments.json) {
    nlohmann::ordered_json json = report_json(*run, *report, arguments.stacks);
    const std::vector<uint32_t> at_peak = allocations_at_peak(*run);
    if (!groups->is_empty()) {
      json["at_peak"]["groups"] = groups_json(groups->group(*run, at_peak));
    } else if (const std::optional<GroupBy> by = arguments.group_by()) {
      json["at_peak"]["groups"] = groups_json(group_allocations(*run, at_peak, *by));
    }
    session.console.print(format_json(json));
    return ExitCode::kSuccess;
  }
  // Empty sections are left out.
  const std::string sections[] = {
      title_of(*run),
      plot_of(*run, detect_terminal(session.environment)),
      peaks_as_text(*report),
      growth_as_text(*run, *report, arguments.stacks) + requested_peak_as_text(*run),
      causes_as_text(*report) + empty_cache_as_text(*report),
      at_peak_as_text(*run, *report, arguments, *groups),
      categories_as_text(*run),
      iterations_as_text(*run),
      advice_as_text(make_advice(*run, *report))};
  std::string text;
  for (const std::string& section : sections) {
    if (!section.empty()) text += (text.empty() ? "" : "\n") + section;
  }
  session.console.print(text);
  return ExitCode::kSuccess;
}

}  // namespace
}  // namespace ashlar
