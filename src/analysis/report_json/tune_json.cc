// SPDX-License-Identifier: Apache-2.0
//
// Converts every trial to one object, and formats the best setting as a shell assignment.
#include "analysis/report_json/tune_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "analysis/report_json/recorded_json.h"
#include "base/units.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

Json trial_or_null(const Trial* trial) { return trial != nullptr ? trial_json(*trial) : Json(); }

}  // namespace

Json tune_json(const TuneSummary& tuned) {
  Json results = Json::array();
  for (const Trial& trial : tuned.result.trials) results.push_back(trial_json(trial));
  const Trial* best = tuned.best();
  const Trial* proposed = tuned.proposed();
  return {
      {"file", tuned.recording.name()},
      {"device", tuned.options.device.value()},
      {"capacity_bytes", tuned.options.capacity_bytes},
      {"cap_bytes", tuned.options.cap_bytes ? Json(*tuned.options.cap_bytes) : Json()},
      {"results", results},
      {"best", trial_or_null(best)},
      {"paste",
       proposed != nullptr ? Json(shell_assignment(proposed->setting, tuned.recording)) : Json()},
      {"paged", trial_or_null(tuned.paged())},
      {"lower_bound_bytes", tuned.result.lower_bound_bytes},
      {"is_limit_recorded", tuned.options.recorded_limit.has_value()},
      {"note", truncation_text(tuned.recording, tuned.result)},
      {"warning", estimate_text(tuned.recording, tuned.result)},
      {"assumption", assumption_text(tuned.recording)},
      {"recorded", recorded_json(tuned.recording)},
  };
}

Json trial_json(const Trial& trial) {
  const auto& least = trial.min_capacity_bytes;
  return {{"engine", engine_name(trial.setting.options)},
          {"conf", trial.setting.conf},
          {"is_recorded", trial.setting.is_recorded},
          {"is_comparable", trial.is_comparable},
          {"peak_reserved_bytes", trial.is_comparable ? Json(trial.peak_reserved_bytes) : Json()},
          {"driver_us", trial.driver_us},
          {"ooms", trial.oom_count},
          {"min_capacity_bytes", least ? Json(*least) : Json()},
          {"is_min_capacity_bound", trial.is_min_capacity_bound}};
}

std::string truncation_text(const DeviceRecording& run, const TuneResult& result) {
  const Timeline& timeline = run.timeline();
  const std::string before = format_bytes(timeline.initial.reserved_bytes);
  if (timeline.reserved_peak.bytes == 0)
    return "No memory was reserved, so no setting can save any.";
  if (!result.has_growth) {
    return fmt::format(
        "Settings cannot be compared: reserved memory was at its peak of {} when the history "
        "began, "
        "and the requests that led to it are not recorded. Start recording earlier, or with a "
        "larger max_entries.",
        before);
  }
  if (!result.trials.front().is_comparable) {
    return fmt::format(
        "Settings cannot be compared: a replay cannot start from the {} that were reserved when "
        "the history began. Start recording at the start of the program, or with a larger "
        "max_entries.",
        before);
  }
  if (timeline.initial.reserved_bytes == 0) return {};
  const auto left_out = std::count_if(result.trials.begin(), result.trials.end(),
                                      [](const Trial& trial) { return !trial.is_comparable; });
  std::string text = fmt::format(
      "All settings start with the {} that were reserved when the history began; what they would "
      "have saved of these is unknown.",
      before);
  if (left_out > 0) {
    const bool is_one = left_out == 1;
    text += fmt::format(
        " {} setting{} (\"-\") {} not compared, because {} cannot start with these segments.",
        left_out, is_one ? "" : "s", is_one ? "is" : "are", is_one ? "it" : "they");
  }
  return text;
}

std::string estimate_text(const DeviceRecording& run, const TuneResult& result) {
  const Trial& recorded = result.trials.front();
  if (!result.can_compare() || !recorded.fidelity || !recorded.fidelity->first_divergence)
    return {};
  return fmt::format(
      "Results are estimates: {} of {} segment operations of the replay match the recording, which "
      "reserved {}.",
      group_digits(recorded.fidelity->matched_count),
      group_digits(recorded.fidelity->recorded_count),
      format_bytes(run.timeline().reserved_peak.bytes));
}

// Quoted, because lists of divisions contain shell metacharacters such as `>`.
std::string shell_assignment(const Setting& setting, const DeviceRecording& run) {
  const RecordedAllocator allocator_kind = recorded_allocator_of(run.options());
  const std::string value = format_setting(setting, allocator_kind);
  if (allocator_kind == RecordedAllocator::kAshlar) return "ASHLAR_ALLOC_CONF=\"" + value + "\"";
  if (run.recording().pytorch().platform == RecordedPlatform::kWindows) {
    return "set \"PYTORCH_CUDA_ALLOC_CONF=" + value + "\"";
  }
  return "PYTORCH_CUDA_ALLOC_CONF=\"" + value + "\"";
}

std::string assumption_text(const DeviceRecording& run) {
  if (recorded_allocator_of(run.options()) == RecordedAllocator::kAshlar) return {};
  return describe(run.recording().pytorch());
}

std::string paged_usage(const DeviceRecording& run) {
  if (run.recording().pytorch().platform == RecordedPlatform::kWindows) {
    return "PyTorch has no setting for it, and Ashlar needs Linux.";
  }
  return "PyTorch has no setting for it; to use it: import ashlar.torch; ashlar.torch.enable()";
}

}  // namespace ashlar
