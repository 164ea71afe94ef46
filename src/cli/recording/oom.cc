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
  add_json_flag(parser, arguments->json);
  return [arguments](const Session& session) { return run_oom(*arguments, session); };
}

std::string age_text(const OccupyingBlock& block) {
  if (!block.alloc_entry) return "allocated before the trace";
  if (!block.age_us) return fmt::format("allocated at entry {}", group_digits(*block.alloc_entry));
  const auto age_us = static_cast<double>(*block.age_us);
  if (age_us < 1e6) return fmt::format("{:.1f} ms old", age_us / 1e3);
  return fmt::format("{:.1f} s old", age_us / 1e6);
}

std::string limit_as_text(const OomLimit& limit) {
  if (!limit.is_inferred()) return format_bytes(limit.at_least_bytes);
  const std::string granted = format_bytes(limit.at_least_bytes);
  return fmt::format("about {} ({} was granted, {} refused)", granted, granted,
                     format_bytes(limit.below_bytes));
}

std::string facts_as_text(const Recording& recording, const OomReport& report) {
  Table table({{}, {}});
  const std::string rounded =
      fmt::format("{} after rounding, in a segment of {}", format_bytes(report.rounded_bytes),
                  format_bytes(report.segment_bytes));
  table.add(
      {"requested", report.requested_bytes
                        ? fmt::format("{}; {}", format_bytes(*report.requested_bytes), rounded)
                        : rounded});
  if (const auto frames = recording.frames(report.stack); !frames.empty()) {
    const std::vector<std::string> lines = stack_lines(frames, kFramesShown);
    for (size_t i = 0; i < lines.size(); ++i) table.add({i == 0 ? "requested by" : "", lines[i]});
  }
  table.add({"memory limit", limit_as_text(report.limit)});
  table.add({"device", fmt::format("{} free", format_bytes(report.device_free_bytes))});
  if (const auto& state = report.state) {
    table.add(
        {"reserved", fmt::format("{}, {} of it allocated", format_bytes(state->reserved_bytes),
                                 format_bytes(state->allocated_bytes))});
    table.add({"free in cache", fmt::format("{}, {} of it in the request's stream and pool",
                                            format_bytes(state->free_bytes),
                                            format_bytes(state->usable_free_bytes))});
    table.add({"largest hole",
               fmt::format("{}; {} usable by the request", format_bytes(state->largest_hole_bytes),
                           format_bytes(state->largest_usable_hole_bytes))});
  }
  return table.to_text();
}

std::string occupied_segments_as_text(const Recording& recording, const OomState& state) {
  Table table({{"segment", Align::kRight},
               {"free", Align::kRight},
               {"hole", Align::kRight},
               {"pinned by", Align::kRight},
               {},
               {}});
  for (const OccupiedSegment& segment : state.occupied_segments) {
    bool is_first = true;
    for (const OccupyingBlock& block : segment.largest_blocks) {
      const std::vector<std::string> lines =
          stack_lines(recording.frames(block.stack), kFramesShown);
      table.add({is_first ? format_bytes(segment.total_bytes) : "",
                 is_first ? format_bytes(segment.free_bytes) : "",
                 is_first ? format_bytes(segment.largest_hole_bytes) : "",
                 format_bytes(block.bytes), age_text(block), lines[0]});
      for (size_t i = 1; i < lines.size(); ++i) table.add({"", "", "", "", "", lines[i]});
      is_first = false;
    }
    if (segment.live_count > segment.largest_blocks.size()) {
      table.add({"", "", "",
                 fmt::format("+ {}", segment.live_count - segment.largest_blocks.size()),
                 "smaller blocks", ""});
    }
  }
  return table.to_text();
}

std::string fitting_as_text(const OomReport& report) {
  std::vector<Trial> fitting;
  for (const Trial& trial : report.settings.trials) {
    if (trial.completes()) fitting.push_back(trial);
  }
  const std::string under = format_bytes(report.limit.replayed_bytes);
  if (fitting.empty()) {
    return fmt::format("None of the {} replayed settings completes under {}.\n",
                       report.settings.trials.size(), under);
  }
  std::string text = fmt::format("{} of {} replayed settings complete under {}:\n", fitting.size(),
                                 report.settings.trials.size(), under);
  const TuneResult& settings = report.settings;
  text += trials_as_text(fitting, {.allocator_kind = settings.allocator_kind,
                                   .lower_bound_bytes = settings.lower_bound_bytes});
  text += "\n";
  if (!settings.best) {
    return text +
           fmt::format("None of PyTorch's settings completes; Ashlar's paged engine does.\n{}\n",
                       kPagedAvailability);
  }
  const Setting& best = settings.trials[*settings.best].setting;
  return text +
         fmt::format("{} {}\n", bold("Best:"), shell_assignment(best, settings.allocator_kind));
}

std::string oom_as_text(const DeviceRecording& recording, const std::optional<OomReport>& report) {
  std::string text =
      fmt::format("{}, device {}: ", printable(recording.name()), recording.device().value());
  if (!report) return text + "no out-of-memory failure\n";
  text += fmt::format(
      "out of memory {}{}\n",
      report->entry ? "at entry " + group_digits(*report->entry) : "before the first entry",
      report->was_recorded ? ", as recorded" : ", in the replay");
  text += facts_as_text(recording.recording(), *report);
  if (!report->state) {
    text +=
        "\nThe replay did not reproduce the failure, so the memory state at that time is "
        "unknown.\n";
  } else if (!report->state->occupied_segments.empty()) {
    text += "\nSegments with the most stranded memory, and the blocks that pin them:\n";
    text += occupied_segments_as_text(recording.recording(), *report->state);
  }
  return text + "\n" + fitting_as_text(*report);
}

ExitCode run_oom(const OomArguments& arguments, const Session& session) {
  const TuneArguments& tuning = arguments.tuning;
  const Result<DeviceRecording> recording = read_history(tuning.file, tuning.device, session);
  if (!recording.ok()) return print_failure(recording.status(), session);
  const Result<TuneOptions> options = parse_tune_options(tuning, *recording, session);
  if (!options.ok()) return print_failure(options.status(), session);
  const OomOptions question = {.tuning = *options, .is_limit_given = tuning.limits.any()};
  const Result<std::optional<OomReport>> report =
      explain_oom(recording->snapshot(), recording->allocations(), question);
  session.console.clear_progress();
  if (!report.ok()) return print_failure(report.status(), session);
  session.console.print(arguments.json ? format_json(oom_json(*recording, *report))
                                       : oom_as_text(*recording, *report));
  return ExitCode::kSuccess;
}

}  // namespace
}  // namespace ashlar
