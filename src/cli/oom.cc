// SPDX-License-Identifier: Apache-2.0
//
// `ashlar oom`: why an allocation found no memory, and which settings would have had room.
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
#include "cli/json_answer.h"
#include "cli/settings_text.h"
#include "cli/stack_text.h"
#include "cli/subcommand.h"
#include "cli/table.h"
#include "cli/tune_arguments.h"

namespace ashlar {
namespace {

constexpr size_t kFramesShown = 3;

struct OomRequest {
  TuneArguments arguments{};
  bool json = false;
};

Run prepare_oom(CLI::App& parser);
ExitCode run_oom(const OomRequest& asked, const Session& session);

}  // namespace

const Subcommand kExplainOom = {
    .name = "oom",
    .summary = "Explain why a recorded run ran out of memory, or would under a limit",
    .prepare = prepare_oom,
};

namespace {

Run prepare_oom(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<OomRequest>();
  add_tune_arguments(parser, asked->arguments);
  add_json_flag(parser, asked->json);
  return [asked](const Session& session) { return run_oom(*asked, session); };
}

// --- for people --------------------------------------------------------------------------------

std::string age_as_text(const PinningBlock& block) {
  if (!block.alloc_entry) return "there from the start";
  if (!block.age_us) return fmt::format("made at entry {}", group_digits(*block.alloc_entry));
  const auto age_us = static_cast<double>(*block.age_us);
  if (age_us < 1e6) return fmt::format("{:.1f} ms old", age_us / 1e3);
  return fmt::format("{:.1f} s old", age_us / 1e6);
}

std::string limit_as_text(const OomLimit& limit) {
  if (!limit.is_inferred()) return format_bytes(limit.at_least_bytes);
  return fmt::format("between {} and {}; inferred: that much was held, this much was refused",
                     format_bytes(limit.at_least_bytes), format_bytes(limit.below_bytes));
}

std::string facts_as_text(const Recording& recording, const OomReport& report) {
  Table table({{}, {}});
  const std::string rounded =
      fmt::format("{} rounded up, in a segment of {}", format_bytes(report.rounded_bytes),
                  format_bytes(report.segment_bytes));
  table.add(
      {"asked for", report.requested_bytes
                        ? fmt::format("{}: {}", format_bytes(*report.requested_bytes), rounded)
                        : rounded});
  if (const auto frames = recording.frames(report.stack); !frames.empty()) {
    const std::vector<std::string> lines = stack_lines(frames, kFramesShown);
    for (size_t i = 0; i < lines.size(); ++i) table.add({i == 0 ? "by" : "", lines[i]});
  }
  table.add({"limit", limit_as_text(report.limit)});
  table.add({"device", fmt::format("{} free", format_bytes(report.device_free_bytes))});
  if (const auto& state = report.state) {
    table.add(
        {"reserved", fmt::format("{}, of which {} allocated", format_bytes(state->reserved_bytes),
                                 format_bytes(state->allocated_bytes))});
    table.add({"free in cache", fmt::format("{}, of which {} in the stream and pool of the request",
                                            format_bytes(state->free_bytes),
                                            format_bytes(state->usable_free_bytes))});
    table.add({"largest hole",
               fmt::format("{}; of use to the request: {}", format_bytes(state->largest_hole_bytes),
                           format_bytes(state->largest_usable_hole_bytes))});
  }
  return table.to_text();
}

std::string pinned_as_text(const Recording& recording, const OomState& state) {
  Table table({{"segment", Align::kRight},
               {"free", Align::kRight},
               {"hole", Align::kRight},
               {"kept by", Align::kRight},
               {},
               {}});
  for (const PinnedSegment& segment : state.pinned) {
    bool is_first = true;
    for (const PinningBlock& block : segment.largest) {
      const std::vector<std::string> lines =
          stack_lines(recording.frames(block.stack), kFramesShown);
      table.add({is_first ? format_bytes(segment.total_bytes) : "",
                 is_first ? format_bytes(segment.free_bytes) : "",
                 is_first ? format_bytes(segment.largest_hole_bytes) : "",
                 format_bytes(block.bytes), age_as_text(block), lines[0]});
      for (size_t i = 1; i < lines.size(); ++i) table.add({"", "", "", "", "", lines[i]});
      is_first = false;
    }
    if (segment.live_count > segment.largest.size()) {
      table.add({"", "", "", fmt::format("+ {}", segment.live_count - segment.largest.size()),
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
    return fmt::format("None of the {} settings that were replayed under {} completes.\n",
                       report.settings.trials.size(), under);
  }
  std::string text = fmt::format("{} of {} settings complete when replayed under {}:\n",
                                 fitting.size(), report.settings.trials.size(), under);
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
  return text + fmt::format("Best: {}\n", shell_assignment(best, settings.allocator_kind));
}

std::string as_text(const DeviceRecording& recording, const std::optional<OomReport>& report) {
  std::string text =
      fmt::format("{}, device {}: ", printable(recording.name()), recording.device().value());
  if (!report) return text + "no out of memory here\n";
  text += fmt::format("out of memory {}{}\n",
                      report->entry ? "at entry " + group_digits(*report->entry)
                                    : "with what was there before the first entry",
                      report->was_recorded ? ", as recorded" : ", in the replay");
  text += facts_as_text(recording.recording(), *report);
  if (!report->state) {
    text +=
        "\nThe failure did not happen again in the replay, so what was held then is not known.\n";
  } else if (!report->state->pinned.empty()) {
    text += "\nWho keeps the free memory from being given back, where most of it is:\n";
    text += pinned_as_text(recording.recording(), *report->state);
  }
  return text + "\n" + fitting_as_text(*report);
}

ExitCode run_oom(const OomRequest& asked, const Session& session) {
  const TuneArguments& arguments = asked.arguments;
  const Result<DeviceRecording> recording = read_history(arguments.file, arguments.device, session);
  if (!recording.ok()) return complain(recording.status(), session);
  const Result<TuneOptions> options = tune_options_of(arguments, *recording, session);
  if (!options.ok()) return complain(options.status(), session);
  const OomOptions question = {.replaying = *options, .is_limit_given = arguments.limits.any()};
  const Result<std::optional<OomReport>> report =
      explain_oom(recording->snapshot(), recording->allocations(), question);
  session.console.clear_progress();
  if (!report.ok()) return complain(report.status(), session);
  session.console.print(asked.json ? json_answer(oom_json(*recording, *report))
                                   : as_text(*recording, *report));
  return ExitCode::kDone;
}

}  // namespace
}  // namespace ashlar
