// SPDX-License-Identifier: Apache-2.0
//
// `ashlar tune`: replays a recorded run under many settings and prints the best setting, ready to
// paste.
#include "analysis/replay/tune.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

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

namespace ashlar {
namespace {

struct TuneCommandArguments {
  TuneArguments tuning{};
  bool min_capacity = false;
  bool json = false;
};

CommandFunction prepare_tune(CLI::App& parser);
ExitCode run_tune(const TuneCommandArguments& arguments, const Session& session);

}  // namespace

const Subcommand kTune = {
    .name = "tune",
    .summary = "Replay a recorded run under many settings and find the best one",
    .prepare = prepare_tune,
};

namespace {

CommandFunction prepare_tune(CLI::App& parser) {
  auto arguments = std::make_shared<TuneCommandArguments>();
  add_tune_arguments(parser, arguments->tuning);
  parser.add_flag("--min-capacity", arguments->min_capacity,
                  "Also find the smallest device memory with which each setting completes");
  add_json_flag(parser, arguments->json);
  return [arguments](const Session& session) { return run_tune(*arguments, session); };
}

std::string settings_noun(RecordedAllocator allocator_kind) {
  return allocator_kind == RecordedAllocator::kPytorch ? "PyTorch's settings" : "them";
}

// Compares the best setting with the recorded setting.
std::string gain_text(const Trial& best, const TuneResult& result) {
  const Trial& recorded = result.trials.front();
  const std::string which = "The best of " + settings_noun(result.allocator_kind);
  if (!result.has_gain()) {
    return fmt::format("Keep the recorded setting: none of {} saves more than 1 %.",
                       settings_noun(result.allocator_kind));
  }
  if (!recorded.completes()) {
    return fmt::format("{} completes; the recorded setting runs out of memory {}.", which,
                       format_times(recorded.oom_count));
  }
  const size_t saved = result.baseline_bytes - best.peak_reserved_bytes;
  return fmt::format("{} reserves {} ({}) less than the recorded setting ({}).", which,
                     format_bytes(saved), format_percent(saved, result.baseline_bytes),
                     format_bytes(result.baseline_bytes));
}

std::string tune_as_text(const TuneSummary& tuned) {
  const TuneResult& result = tuned.result;
  const std::string note = truncation_text(tuned.recording, result);
  if (!result.can_compare()) return title_of(tuned.recording) + "\n" + paragraph(note);
  std::string text = fmt::format(
      "{}, device {}: {} replayed{}\n{}", printable(tuned.recording.name()),
      tuned.options.device.value(), count_text(result.trials.size(), "setting", "settings"),
      tuned.options.cap_bytes && !tuned.options.recorded_limit
          ? fmt::format(" under a cap of {}", format_bytes(*tuned.options.cap_bytes))
          : "",
      other_devices_text(tuned.recording));
  if (tuned.options.recorded_limit) {
    text +=
        fmt::format("Memory limit, as recorded: {}\n", format_limit(*tuned.options.recorded_limit));
  }
  text += trials_as_text(result.trials, {.allocator_kind = result.allocator_kind,
                                         .lower_bound_bytes = result.lower_bound_bytes,
                                         .has_min_capacity = tuned.options.find_min_capacity});
  text += fmt::format("\nLower bound ({}): {}\n",
                      result.lower_bound_bytes > tuned.recording.timeline().requested_peak.bytes
                          ? "with the request that failed"
                          : "peak requested",
                      format_bytes(result.lower_bound_bytes));
  if (!note.empty()) text += "\n" + paragraph(note);
  if (const std::string warning = estimate_text(tuned.recording, result); !warning.empty()) {
    text += "\n" + paragraph(warning);
  }
  if (const std::string paged = paged_as_text(tuned.recording, result); !paged.empty()) {
    text += "\n" + paged;
  }
  if (const std::string assumed = assumption_lines(tuned.recording); !assumed.empty()) {
    text += "\n" + assumed;
  }
  const Trial* best = tuned.best();
  if (best == nullptr) {
    return text + fmt::format("\nNone of {} completes: all run out of memory.\n",
                              settings_noun(result.allocator_kind));
  }
  text += "\n" + gain_text(*best, result) + "\n";
  const Trial* proposed = tuned.proposed();
  if (proposed == nullptr) return text;
  return text + fmt::format("{} {}\n", bold("Best:"),
                            shell_assignment(proposed->setting, tuned.recording));
}

ExitCode run_tune(const TuneCommandArguments& arguments, const Session& session) {
  const TuneArguments& tuning = arguments.tuning;
  const Result<DeviceRecording> recording = read_history(tuning.file, tuning.device, session);
  if (!recording.ok()) return print_failure(recording.status(), session);
  if (!recording->has_history()) {
    return print_no_history(*recording, HistoryQuestion::kTuneSettings, arguments.json, session);
  }
  Result<TuneOptions> options = parse_tune_options(tuning, *recording, session);
  if (!options.ok()) return print_failure(options.status(), session);
  options->find_min_capacity = arguments.min_capacity;
  const Result<TuneResult> result = tune(recording->snapshot(), recording->allocations(), *options);
  session.console.clear_progress();
  if (!result.ok()) return print_failure(result.status(), session);
  const TuneSummary tuned{*recording, *options, *result};
  session.console.print(arguments.json ? format_json(tune_json(tuned)) : tune_as_text(tuned));
  return result->best || !result->can_compare() ? ExitCode::kSuccess : ExitCode::kFailure;
}

}  // namespace
}  // namespace ashlar
