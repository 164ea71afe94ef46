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

#include "analysis/report.h"
#include "analysis/stack_index.h"
#include "base/units.h"
#include "cli/json_answer.h"
#include "cli/recorded_run.h"
#include "cli/settings_text.h"
#include "cli/stack_text.h"
#include "cli/subcommand.h"
#include "cli/table.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFramesShown = 3;
constexpr double kWorthSaying = 0.02;  // of the reserved memory

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

// --- causes and advice, for both kinds of reader ------------------------------------------------

struct CauseRow {
  const char* key;
  const char* words;
  size_t bytes;
};

std::vector<CauseRow> rows_of(const Causes& causes) {
  return {
      {"rounding", "blocks larger than what was asked for", causes.rounding},
      {"other_pool", "free, but in another pool", causes.other_pool},
      {"other_stream", "free, but bound to another stream", causes.other_stream},
      {"other_size", "free, but kept for blocks of the other kind (small or large)",
       causes.other_size},
      {"beside_live",
       "free, but beside live blocks: holes too small to serve, impossible to give back",
       causes.beside_live},
      {"unused", "whole segments that nobody used", causes.unused},
  };
}

std::string percent(size_t part, size_t whole) {
  if (whole == 0) return "0 %";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

// Blocks are larger than requests where the settings say so, or where too little is left to split
// off: 1 MiB in a plain segment, 512 B in an expandable one.
std::string rounding_advice(size_t bytes, const AllocatorOptions& recorded) {
  const auto& divisions = recorded.roundup_power2_divisions;
  const bool rounds_up =
      std::any_of(divisions.begin(), divisions.end(), [](uint32_t count) { return count > 1; });
  const char* what =
      rounds_up ? "a finer roundup_power2_divisions, or none, saves some of it."
      : recorded.expandable_segments
          ? "blocks are multiples of 512 B; fewer and larger allocations have less of it."
          : "blocks keep up to 1 MiB that is too little to split off; expandable_segments:True "
            "splits it off.";
  return fmt::format("{} are rounding: {}", format_bytes(bytes), what);
}

std::vector<std::string> advice_of(const Report& report, const AllocatorOptions& recorded) {
  std::vector<std::string> advice;
  const auto reserved = static_cast<size_t>(report.replayed.stats.reserved_bytes.all.peak);
  const auto enough = static_cast<size_t>(kWorthSaying * static_cast<double>(reserved));
  if (const size_t count = report.replayed.ooms.size(); count > 0) {
    advice.push_back(fmt::format(
        "It ran out of memory {}: `ashlar oom` says what was asked for and what would have "
        "fitted.",
        times_as_text(count)));
  }
  const Origin origin = origin_of(recorded);
  bool any_saves = false;
  std::string paged;  // for whoever cannot set it
  for (const Alternative& other : report.alternatives) {
    if (other.oom_count > 0 || other.peak_reserved_bytes + enough > reserved) continue;
    const size_t saved = reserved - other.peak_reserved_bytes;
    const std::string what = fmt::format("{} at its peak, {} ({}) less. Replayed, not guessed.",
                                         format_bytes(other.peak_reserved_bytes),
                                         format_bytes(saved), percent(saved, reserved));
    if (!can_be_set(other.setting, origin)) {
      paged = fmt::format("Ashlar's paged engine would have had {} {}", what, kWhoGetsPaged);
      continue;
    }
    advice.push_back(fmt::format("{} {}: {}", any_saves ? "Or set" : "Set",
                                 text_of(other.setting, origin), what));
    any_saves = true;
  }
  if (!any_saves) {
    advice.push_back(
        fmt::format("No setting that was tried would have saved {}; `ashlar tune` tries more.",
                    percent(enough, reserved)));
  }
  if (!paged.empty()) advice.push_back(std::move(paged));
  if (report.causes.other_stream > enough) {
    advice.push_back(fmt::format(
        "{} were free on other streams: fewer streams for allocations would share them.",
        format_bytes(report.causes.other_stream)));
  }
  if (report.causes.rounding > enough) {
    advice.push_back(rounding_advice(report.causes.rounding, recorded));
  }
  if (report.start_reserved_bytes > 0) {
    advice.push_back(fmt::format(
        "The history has no beginning ({} were held already): start recording earlier, or with a "
        "larger max_entries.",
        format_bytes(report.start_reserved_bytes)));
  }
  if (!report.has_stacks) {
    advice.push_back(
        "There are no stacks in this file: record with context=\"all\" to see who allocates.");
  }
  return advice;
}

// --- for programs ------------------------------------------------------------------------------

std::string as_json(const RecordedRun& run, const Report& report, const StackIndex& stacks,
                    const std::vector<StackUse>& users) {
  const AllocatorStats& stats = report.replayed.stats;
  Json causes = Json::object();
  for (const CauseRow& row : rows_of(report.causes)) causes[row.key] = row.bytes;
  Json alternatives = Json::array();
  for (const Alternative& other : report.alternatives) {
    alternatives.push_back({{"engine", engine_of(other.setting.options)},
                            {"conf", other.setting.conf},
                            {"peak_reserved_bytes", other.peak_reserved_bytes},
                            {"ooms", other.oom_count}});
  }
  Json at_peak = Json::array();
  for (const StackUse& use : users) {
    at_peak.push_back({{"bytes", use.bytes},
                       {"count", use.count},
                       {"stack", stack_as_json(stacks.frames(use.stack))}});
  }
  const Json answer = {
      {"file", run.file},
      {"device", run.device.value()},
      {"entries", run.trace().size()},
      {"peak_requested_bytes", stats.requested_bytes.all.peak},
      {"peak_allocated_bytes", stats.allocated_bytes.all.peak},
      {"peak_active_bytes", stats.active_bytes.all.peak},
      {"peak_reserved_bytes", stats.reserved_bytes.all.peak},
      {"peak_entry", report.replayed.peak_entry},
      {"lower_bound_bytes", report.bound.requested_bytes},
      {"packed_bytes", report.bound.packed_bytes},
      {"at_peak",
       {{"reserved_bytes", report.causes.reserved_bytes()},
        {"requested_bytes", report.causes.requested_bytes},
        {"gap_bytes", report.causes.gap_bytes()},
        {"causes", causes},
        {"stacks", at_peak}}},
      {"ooms", report.replayed.ooms.size()},
      {"alternatives", alternatives},
      {"advice", advice_of(report, run.options)},
  };
  return json_answer(answer);
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
  const Causes& causes = report.causes;
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}});
  for (const CauseRow& row : rows_of(causes)) {
    if (row.bytes == 0) continue;
    table.add({format_bytes(row.bytes), percent(row.bytes, causes.gap_bytes()), row.words});
  }
  return fmt::format("Where {} went: at the peak, {} were reserved for {} requested\n{}",
                     format_bytes(causes.gap_bytes()), format_bytes(causes.reserved_bytes()),
                     format_bytes(causes.requested_bytes), table.to_text());
}

std::string users_as_text(const std::vector<StackUse>& users, const StackIndex& stacks,
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
  const Result<RecordedRun> run = read_history(asked.file, asked.device, session);
  if (!run.ok()) return complain(run.status(), session);
  ReplayOptions options;
  options.device = run->device;
  options.recorded = options.allocator = run->options;
  options.capacity_bytes = assumed_capacity_bytes(run->snapshot, run->device);
  // Where it ran out, it had been allowed little more than it had.
  if (run->has_oom()) options.cap_bytes = run->timeline.reserved.bytes;
  const Result<Report> report = make_report(run->snapshot, run->allocations, options);
  if (!report.ok()) return complain(report.status(), session);

  StackIndex stacks;
  const std::vector<uint32_t> numbers = stacks.add(run->snapshot.tables);
  const std::vector<StackUse> users = group_by_stack(run->allocations, report->at_peak, numbers);
  if (asked.json) {
    session.console.print(as_json(*run, *report, stacks, users));
    return ExitCode::kDone;
  }
  session.console.print(fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}", title_of(*run), plot_of(*run, terminal_in(session.environment)),
      peaks_as_text(*report), causes_as_text(*report), users_as_text(users, stacks, asked),
      advice_as_text(advice_of(*report, run->options))));
  return ExitCode::kDone;
}

}  // namespace
}  // namespace ashlar
