// SPDX-License-Identifier: Apache-2.0
//
// `ashlar oom`: explains why an allocation failed, and finds settings under which the run
// completes.
#include "analysis/replay/oom.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include "analysis/report_json/oom_json.h"
#include "analysis/report_json/oom_verdict.h"
#include "analysis/report_json/recorded_json.h"
#include "analysis/report_json/report_json.h"
#include "analysis/report_json/tune_json.h"
#include "base/units.h"
#include "cli/recording/replay_arguments.h"
#include "cli/recording/trial_table.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

struct OomArguments {
  TuneArguments tuning{};
  size_t top = 5;
  StackDetail stacks = StackDetail::kUserCode;
  bool json = false;
};

CommandFunction prepare_oom(CLI::App& parser);
ExitCode run_oom(const OomArguments& arguments, const Session& session);

}  // namespace

const Subcommand kExplainOom = {
    .name = "oom",
    .summary = "Explain why a run ran out of memory, or would under a limit",
    .prepare = prepare_oom,
};

namespace {

CommandFunction prepare_oom(CLI::App& parser) {
  auto arguments = std::make_shared<OomArguments>();
  add_tune_arguments(parser, arguments->tuning);
  parser.add_option("--top", arguments->top, "Number of source lines to list")
      ->capture_default_str();
  add_stacks_option(parser, arguments->stacks);
  add_json_flag(parser, arguments->json);
  return [arguments](const Session& session) { return run_oom(*arguments, session); };
}

std::string age_text(const OccupyingBlock& block) {
  if (!block.alloc_entry) return "allocated before the recording";
  if (!block.age_us) return fmt::format("allocated at entry {}", group_digits(*block.alloc_entry));
  const auto age_us = static_cast<double>(*block.age_us);
  if (age_us < 1e6) return fmt::format("{:.1f} ms old", age_us / 1e3);
  return fmt::format("{:.1f} s old", age_us / 1e6);
}

// The stacks of a recording, and how much of them to show.
struct ShownStacks {
  const Recording& recording;
  StackDetail detail{};

  std::vector<std::string> lines(StackId stack) const {
    const uint32_t number = stack_number(recording.stack_numbers(detail), stack);
    return stack_lines_of(recording.stacks(detail), number, detail);
  }
};

// Formats sentences as a bulleted list, wrapped at the right margin.
std::string bullets(const std::vector<std::string>& sentences) {
  Table table({{}, {}});
  for (const std::string& sentence : sentences) table.add({"*", sentence});
  return table.to_text();
}

std::string limit_as_text(const OomReport& report) {
  const std::string limit = format_limit(report.limit);
  const std::string free = format_bytes(report.device_free_bytes);
  if (!report.limit.is_inferred()) return limit;
  return report.limit.is_device_limit
             ? fmt::format(
                   "{}, the capacity of the GPU, which had {} free; memory of other processes "
                   "and of CUDA itself is not included",
                   limit, free)
             : fmt::format("{}, set for the process; the GPU had {} free", limit, free);
}

std::string facts_as_text(const ShownStacks& stacks, const OomReport& report) {
  const OomState& state = report.state;
  Table table({{}, {}});
  const std::string rounded = format_bytes(report.rounded_bytes);
  const std::string segment = format_bytes(report.segment_bytes);
  std::string requested = report.requested_bytes ? format_bytes(*report.requested_bytes) : rounded;
  if (requested != rounded || !report.requested_bytes) {
    requested = report.requested_bytes ? requested + ", " + rounded + " after rounding"
                                       : rounded + " after rounding";
  }
  table.add(
      {"requested", segment == rounded ? requested : requested + ", in a segment of " + segment});
  if (!stacks.recording.frames(report.stack).empty()) {
    const std::vector<std::string> lines = stacks.lines(report.stack);
    for (size_t i = 0; i < lines.size(); ++i) table.add({i == 0 ? "requested by" : "", lines[i]});
  }
  table.add({"memory limit", limit_as_text(report)});
  table.add({"reserved", fmt::format("{}, {} of it allocated", format_bytes(state.reserved_bytes),
                                     format_bytes(state.allocated_bytes))});
  table.add({"free in cache",
             fmt::format("{}, {} of it in the request's stream and pool",
                         format_bytes(state.free_bytes), format_bytes(state.usable_free_bytes))});
  table.add({"largest block",
             fmt::format("{}; {} usable by the request", format_bytes(state.largest_hole_bytes),
                         format_bytes(state.largest_usable_hole_bytes))});
  return table.to_text();
}

std::string holders_as_text(const DeviceRecording& run, const OomReport& report,
                            const OomArguments& arguments) {
  const std::vector<OomHolder> holders = holders_at_failure(run, report, arguments.stacks);
  const StackIndex& stacks = run.recording().stacks(arguments.stacks);
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}, {}});
  for (size_t i = 0; i < std::min(holders.size(), arguments.top); ++i) {
    const std::vector<std::string> lines =
        stack_lines_of(stacks, holders[i].stack, arguments.stacks);
    table.add({format_bytes(holders[i].bytes), fmt::format("{} x", group_digits(holders[i].count)),
               name(holders[i].category), lines.front()});
    for (size_t line = 1; line < lines.size(); ++line) table.add({"", "", "", lines[line]});
  }
  std::string text = bold(fmt::format("Lines that held the most memory: {} in use",
                                      format_bytes(report.live_requested_bytes))) +
                     "\n" + table.to_text();
  if (holders.size() > arguments.top) {
    text +=
        fmt::format("  and {} more (see --top)\n", group_digits(holders.size() - arguments.top));
  }
  return text;
}

std::string held_categories_as_text(const DeviceRecording& run, const OomReport& report) {
  const CategoryBytes bytes = categories_at_failure(run, report);
  std::vector<size_t> order;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (bytes[i] > 0) order.push_back(i);
  }
  const bool is_known = std::any_of(order.begin(), order.end(), [](size_t i) {
    return static_cast<Category>(i) != Category::kUnknown;
  });
  if (!is_known) return "";
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}});
  for (const size_t i : order) {
    table.add({format_bytes(bytes[i]), format_percent(bytes[i], report.live_requested_bytes),
               name(static_cast<Category>(i))});
  }
  return bold("By category") + "\n" + table.to_text();
}

std::string occupied_segments_as_text(const ShownStacks& stacks, const OomState& state) {
  Table table({{"segment", Align::kRight},
               {"free", Align::kRight},
               {"largest", Align::kRight},
               {"held by", Align::kRight},
               {},
               {}});
  for (const OccupiedSegment& segment : state.occupied_segments) {
    bool is_first = true;
    for (const OccupyingBlock& block : segment.largest_blocks) {
      const std::vector<std::string> lines = stacks.lines(block.stack);
      table.add({is_first ? format_bytes(segment.total_bytes) : "",
                 is_first ? format_bytes(segment.free_bytes) : "",
                 is_first ? format_bytes(segment.largest_hole_bytes) : "",
                 format_bytes(block.bytes), age_text(block), lines[0]});
      for (size_t i = 1; i < lines.size(); ++i) table.add({"", "", "", "", "", lines[i]});
      is_first = false;
    }
    const size_t more = segment.live_count - segment.largest_blocks.size();
    if (more > 0) {
      table.add({"", "", "", fmt::format("+ {}", group_digits(more)),
                 more == 1 ? "smaller block" : "smaller blocks", ""});
    }
  }
  return table.to_text();
}

std::string fitting_as_text(const DeviceRecording& run, const OomReport& report) {
  if (!report.can_compare()) return "";
  const TuneResult& settings = report.settings;
  std::vector<Trial> fitting;
  for (const Trial& trial : settings.trials) {
    if (trial.completes() && trial.is_comparable) fitting.push_back(trial);
  }
  if (fitting.empty()) return "";
  const std::string under = format_bytes(report.limit.replayed_bytes);
  const std::string warning = estimate_text(run, settings);
  const std::string heading = fmt::format("The run completes with {} of {} settings under {}",
                                          fitting.size(), settings.trials.size(), under);
  return bold(heading) + "\n" +
         trials_as_text(fitting, {.allocator_kind = settings.allocator_kind,
                                  .lower_bound_bytes = settings.lower_bound_bytes}) +
         (warning.empty() ? "" : paragraph(warning)) + assumption_lines(run);
}

std::string oom_title(const DeviceRecording& run, const OomReport& report) {
  const std::string count =
      report.failure_count > 1
          ? fmt::format(" (the first of {} failures)", group_digits(report.failure_count))
          : "";
  return fmt::format(
      "{}, device {}: out of memory {}, {}{}\n{}", printable(run.name()), run.device().value(),
      report.entry ? "at entry " + group_digits(*report.entry) : "before the first entry",
      report.was_recorded ? "as recorded" : "in the replay", count, other_devices_text(run));
}

// Formats the result if no allocation failed.
std::string completion_as_text(const DeviceRecording& run,
                               const std::optional<OomLimit>& given_limit) {
  const std::string outcome =
      given_limit ? "completes under " + format_limit(*given_limit) : "no out-of-memory failure";
  std::string text = fmt::format("{}, device {}: {}\n{}", printable(run.name()),
                                 run.device().value(), outcome, other_devices_text(run));
  const std::optional<uint32_t> recorded = first_failure(run.trace());
  if (given_limit && recorded) {
    text += "\n" + paragraph(fmt::format("The recorded failure at entry {} does not occur under "
                                         "this limit, according to a replay.",
                                         group_digits(*recorded)));
  }
  if (!given_limit) {
    text += "\n" + paragraph("To see how the run would fail with less memory, use --cap SIZE.");
  }
  return text;
}

std::string oom_as_text(const DeviceRecording& run, const OomReport& report,
                        const OomArguments& arguments) {
  const ShownStacks stacks = {.recording = run.recording(), .detail = arguments.stacks};
  std::string pinned;
  const bool has_holes =
      report.reason == OomReason::kFragmented && !report.state.occupied_segments.empty();
  if (has_holes) {
    pinned = bold("Segments with the most free memory, and the blocks that hold them") + "\n" +
             occupied_segments_as_text(stacks, report.state);
  }
  // Empty sections are left out.
  const std::string sections[] = {paragraph(verdict_text(report)) + bullets(remedies(run, report)),
                                  facts_as_text(stacks, report),
                                  holders_as_text(run, report, arguments),
                                  held_categories_as_text(run, report),
                                  pinned,
                                  fitting_as_text(run, report)};
  std::string text = oom_title(run, report);
  for (const std::string& section : sections) {
    if (!section.empty()) text += "\n" + section;
  }
  return text + lines_note(run.recording().stacks(arguments.stacks));
}

ExitCode run_oom(const OomArguments& arguments, const Session& session) {
  const TuneArguments& tuning = arguments.tuning;
  const Result<DeviceRecording> recording = read_history(tuning.file, tuning.device, session);
  if (!recording.ok()) return print_failure(recording.status(), session);
  if (!recording->has_history()) {
    return print_no_history(*recording, HistoryQuestion::kExplainFailure, arguments.json, session);
  }
  const Result<TuneOptions> options = parse_tune_options(tuning, *recording, session);
  if (!options.ok()) return print_failure(options.status(), session);
  const Result<std::optional<OomReport>> report =
      explain_oom(recording->snapshot(), recording->allocations(), *options);
  session.console.clear_progress();
  if (!report.ok()) return print_failure(report.status(), session);
  std::optional<OomLimit> given_limit;
  if (tuning.limits.any()) given_limit = limit_of(*options);
  if (arguments.json) {
    session.console.print(format_json(oom_json(*recording, *report, given_limit)));
  } else {
    session.console.print(*report ? oom_as_text(*recording, **report, arguments)
                                  : completion_as_text(*recording, given_limit));
  }
  return ExitCode::kSuccess;
}

}  // namespace
}  // namespace ashlar
