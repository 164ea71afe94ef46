// SPDX-License-Identifier: Apache-2.0
//
// `ashlar tune`: a recorded run replayed under many settings, and the best of them to paste.
#include "analysis/replay/tune.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

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

struct TuneRequest {
  TuneArguments arguments{};
  bool min_capacity = false;
  bool json = false;
};

Run prepare_tune(CLI::App& parser);
ExitCode run_tune(const TuneRequest& asked, const Session& session);

}  // namespace

const Subcommand kTune = {
    .name = "tune",
    .summary = "Replay a recorded run under many settings and engines, and name the best",
    .prepare = prepare_tune,
};

namespace {

Run prepare_tune(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<TuneRequest>();
  add_tune_arguments(parser, asked->arguments);
  parser.add_flag("--min-capacity", asked->min_capacity,
                  "Also find the smallest device on which each setting completes");
  add_json_flag(parser, asked->json);
  return [asked](const Session& session) { return run_tune(*asked, session); };
}

std::string name_of_all(RecordedAllocator allocator_kind) {
  return allocator_kind == RecordedAllocator::kPytorch ? "PyTorch's settings" : "them";
}

// What the best setting has over the recorded one.
std::string gain(const Trial& best, const TuneResult& result) {
  const Trial& recorded = result.trials.front();
  const std::string which = "The best of " + name_of_all(result.allocator_kind);
  if (best.setting.is_recorded) {
    return fmt::format("{} is the recorded one already.", which);
  }
  if (!recorded.completes()) {
    return fmt::format("{} completes; the recorded one runs out of memory {}.", which,
                       format_times(recorded.oom_count));
  }
  const size_t saved = recorded.peak_reserved_bytes - best.peak_reserved_bytes;
  if (saved == 0) {
    return fmt::format("{} reserves as much as the recorded one, at less driver time.", which);
  }
  return fmt::format(
      "{} saves {} of the {} that the recorded one reserves: {:.1f} %.", which, format_bytes(saved),
      format_bytes(recorded.peak_reserved_bytes),
      100 * static_cast<double>(saved) / static_cast<double>(recorded.peak_reserved_bytes));
}

std::string as_text(const TuneSummary& tuned) {
  const TuneResult& result = tuned.result;
  std::string text =
      fmt::format("{}, device {}: {} settings replayed{}\n", printable(tuned.recording.name()),
                  tuned.options.device.value(), result.trials.size(),
                  tuned.options.cap_bytes
                      ? fmt::format(" under a cap of {}", format_bytes(*tuned.options.cap_bytes))
                      : "");
  text += trials_as_text(result.trials, {.allocator_kind = result.allocator_kind,
                                         .lower_bound_bytes = result.lower_bound_bytes,
                                         .has_min_capacity = tuned.options.find_min_capacity});
  text += fmt::format("\nRequested at the peak, which is the least that any needs: {}\n",
                      format_bytes(result.lower_bound_bytes));
  if (const std::string paged = paged_as_text(result); !paged.empty()) text += "\n" + paged;
  const Trial* best = tuned.best();
  if (best == nullptr) {
    return text + fmt::format("\nNone of {} completes: every one runs out of memory.\n",
                              name_of_all(result.allocator_kind));
  }
  return text + fmt::format("\n{}\nBest: {}\n", gain(*best, result),
                            shell_assignment(best->setting, result.allocator_kind));
}

ExitCode run_tune(const TuneRequest& asked, const Session& session) {
  const TuneArguments& arguments = asked.arguments;
  const Result<DeviceRecording> recording = read_history(arguments.file, arguments.device, session);
  if (!recording.ok()) return complain(recording.status(), session);
  Result<TuneOptions> options = tune_options_of(arguments, *recording, session);
  if (!options.ok()) return complain(options.status(), session);
  options->find_min_capacity = asked.min_capacity;
  const Result<TuneResult> result = tune(recording->snapshot(), recording->allocations(), *options);
  session.console.clear_progress();
  if (!result.ok()) return complain(result.status(), session);
  const TuneSummary tuned{*recording, *options, *result};
  session.console.print(asked.json ? json_answer(tune_json(tuned)) : as_text(tuned));
  return result->best ? ExitCode::kDone : ExitCode::kNo;
}

}  // namespace
}  // namespace ashlar
