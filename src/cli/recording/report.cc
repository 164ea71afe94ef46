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
#include "base/units.h"
#include "cli/recording/recorded_run.h"
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
  bool json = false;
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
  add_json_flag(parser, arguments->json);
  return [arguments](const Session& session) { return run_report(*arguments, session); };
}

std::string peaks_as_text(const Report& report) {
  const AllocatorStats& stats = report.replayed.stats;
  const auto bytes = [](const Stat& stat) { return format_bytes(static_cast<size_t>(stat.peak)); };
  Table table({{}, {{}, Align::kRight}, {}});
  table.add({"requested", bytes(stats.requested_bytes.all), "by the program"});
  table.add({"allocated", bytes(stats.allocated_bytes.all), "in blocks, after rounding"});
  const double times = static_cast<double>(stats.reserved_bytes.all.peak) /
                       static_cast<double>(std::max<int64_t>(stats.requested_bytes.all.peak, 1));
  table.add({"reserved", bytes(stats.reserved_bytes.all),
             fmt::format("from the device, {:.2f} × requested", times)});
  table.add(
      {"lower bound", format_bytes(report.bound.requested_bytes),
       fmt::format("the best layout found needs {}", format_bytes(report.bound.packed_bytes))});
  return bold("Peaks") + "\n" + table.to_text();
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
      fmt::format("Reserved but unused at the peak: {} ({} reserved, {} requested)",
                  format_bytes(causes.gap_bytes()), format_bytes(causes.reserved_bytes()),
                  format_bytes(causes.requested_bytes));
  return fmt::format("{}\n{}", bold(heading), table.to_text());
}

std::string stacks_as_text(const std::vector<StackTotal>& stack_totals, const StackIndex& stacks,
                           const ReportArguments& arguments) {
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}});
  for (size_t i = 0; i < std::min(stack_totals.size(), arguments.top); ++i) {
    const std::vector<std::string> lines =
        stack_lines(stacks.frames(stack_totals[i].stack), kFramesShown);
    table.add({format_bytes(stack_totals[i].bytes),
               fmt::format("{} x", group_digits(stack_totals[i].count)), lines.front()});
    for (size_t line = 1; line < lines.size(); ++line) table.add({"", "", lines[line]});
  }
  return bold("Largest stacks at the peak") + "\n" + table.to_text();
}

std::string advice_as_text(const std::vector<std::string>& advice) {
  Table table({{}, {}});
  for (const std::string& line : advice) table.add({"*", line});
  return bold("Advice") + "\n" + table.to_text();
}

ExitCode run_report(const ReportArguments& arguments, const Session& session) {
  const Result<DeviceRecording> run = read_history(arguments.file, arguments.device, session);
  if (!run.ok()) return print_failure(run.status(), session);
  const Result<Report> report = report_recording(*run);
  if (!report.ok()) return print_failure(report.status(), session);
  const std::vector<StackTotal> stack_totals = stacks_at_peak(*run, *report);
  if (arguments.json) {
    session.console.print(format_json(report_json(*run, *report, stack_totals)));
    return ExitCode::kSuccess;
  }
  session.console.print(fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}", title_of(*run), plot_of(*run, detect_terminal(session.environment)),
      peaks_as_text(*report), causes_as_text(*report),
      stacks_as_text(stack_totals, run->recording().stacks(), arguments),
      advice_as_text(make_advice(*report, run->options()))));
  return ExitCode::kSuccess;
}

}  // namespace
}  // namespace ashlar
