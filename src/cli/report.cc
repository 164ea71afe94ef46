// SPDX-License-Identifier: Apache-2.0
//
// `ashlar report`: one page about a recorded run: what peaked, what was wasted and why, who had it,
// and what to do about it.
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
#include "cli/json_answer.h"
#include "cli/recorded_run.h"
#include "cli/stack_text.h"
#include "cli/subcommand.h"
#include "cli/table.h"

namespace ashlar {
namespace {

constexpr size_t kFramesShown = 3;

struct ReportRequest {
  std::string file{};
  std::optional<uint64_t> device{};
  size_t top = 5;
  bool json = false;
};

Run prepare_report(CLI::App& parser);
ExitCode run_report(const ReportRequest& asked, const Session& session);

}  // namespace

const Subcommand kReport = {
    .name = "report",
    .summary = "One page about a recorded run: peaks, waste and its causes, advice",
    .prepare = prepare_report,
};

namespace {

Run prepare_report(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<ReportRequest>();
  parser.add_option("FILE", asked->file, kSnapshotHelp)->required();
  parser.add_option("--device", asked->device, kDeviceHelp);
  parser.add_option("--top", asked->top, "Stacks to show")->capture_default_str();
  add_json_flag(parser, asked->json);
  return [asked](const Session& session) { return run_report(*asked, session); };
}

// --- for people --------------------------------------------------------------------------------

std::string peaks_as_text(const Report& report) {
  const AllocatorStats& stats = report.replayed.stats;
  const auto bytes = [](const Stat& stat) { return format_bytes(static_cast<size_t>(stat.peak)); };
  Table table({{}, {{}, Align::kRight}, {}});
  table.add({"requested", bytes(stats.requested_bytes.all), "what the program asked for"});
  table.add({"allocated", bytes(stats.allocated_bytes.all), "in blocks"});
  const double times = static_cast<double>(stats.reserved_bytes.all.peak) /
                       static_cast<double>(std::max<int64_t>(stats.requested_bytes.all.peak, 1));
  table.add({"reserved", bytes(stats.reserved_bytes.all),
             fmt::format("from the device: {:.2f} times what was requested", times)});
  table.add({"least", format_bytes(report.bound.requested_bytes),
             fmt::format("nobody can do with less; a packing of {} exists",
                         format_bytes(report.bound.packed_bytes))});
  return "Peaks\n" + table.to_text();
}

std::string causes_as_text(const Report& report) {
  const GapCauses& causes = report.causes;
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}});
  for (const CauseRow& row : cause_rows(causes)) {
    if (row.bytes == 0) continue;
    table.add({format_bytes(row.bytes), format_percent(row.bytes, causes.gap_bytes()), row.words});
  }
  return fmt::format("Where {} went: at the peak, {} were reserved for {} requested\n{}",
                     format_bytes(causes.gap_bytes()), format_bytes(causes.reserved_bytes()),
                     format_bytes(causes.requested_bytes), table.to_text());
}

std::string users_as_text(const std::vector<StackTotal>& users, const StackIndex& stacks,
                          const ReportRequest& asked) {
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}});
  for (size_t i = 0; i < std::min(users.size(), asked.top); ++i) {
    const std::vector<std::string> lines = stack_lines(stacks.frames(users[i].stack), kFramesShown);
    table.add({format_bytes(users[i].bytes), fmt::format("{} x", group_digits(users[i].count)),
               lines.front()});
    for (size_t line = 1; line < lines.size(); ++line) table.add({"", "", lines[line]});
  }
  return "Who had it, at the peak\n" + table.to_text();
}

std::string advice_as_text(const std::vector<std::string>& advice) {
  Table table({{}, {}});
  for (const std::string& line : advice) table.add({"*", line});
  return "What to do\n" + table.to_text();
}

ExitCode run_report(const ReportRequest& asked, const Session& session) {
  const Result<DeviceRecording> run = read_history(asked.file, asked.device, session);
  if (!run.ok()) return complain(run.status(), session);
  const Result<Report> report = report_recording(*run);
  if (!report.ok()) return complain(report.status(), session);
  const std::vector<StackTotal> users = stacks_at_peak(*run, *report);
  if (asked.json) {
    session.console.print(json_answer(report_json(*run, *report, users)));
    return ExitCode::kDone;
  }
  session.console.print(fmt::format("{}\n{}\n{}\n{}\n{}\n{}", title_of(*run),
                                    plot_of(*run, terminal_in(session.environment)),
                                    peaks_as_text(*report), causes_as_text(*report),
                                    users_as_text(users, run->recording().stacks(), asked),
                                    advice_as_text(make_advice(*report, run->options()))));
  return ExitCode::kDone;
}

}  // namespace
}  // namespace ashlar
