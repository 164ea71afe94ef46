// SPDX-License-Identifier: Apache-2.0
//
// Converts peaks, edits and stacks. Adds the phase and the iteration of the entries at the peaks.
#include "analysis/report_json/what_if_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "analysis/report_json/recorded_json.h"
#include "analysis/report_json/stack_json.h"
#include "analysis/training/training_analysis.h"
#include "base/text.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxStacks = 20;

Json peak_json(const DeviceRecording& run, const WhatIfPeak& peak) {
  Json json = {
      {"entry", peak.entry ? Json(*peak.entry) : Json()}, {"iteration", Json()}, {"phase", Json()}};
  if (!peak.entry) return json;
  const Iterations& iterations = training_of(run).iterations;
  const uint32_t iteration = iterations.at(*peak.entry);
  if (iteration != Iterations::kNoIteration) json["iteration"] = iteration + 1;
  json["phase"] = name(iterations.phases[iterations.phase_index_at(*peak.entry)].phase);
  return json;
}

Json run_peaks_json(const DeviceRecording& run, const WhatIfPeaks& peaks) {
  Json phases = Json::object();
  for (size_t i = 0; i < kPhaseCount; ++i) {
    if (peaks.requested_by_phase[i] == 0) continue;
    phases[name(static_cast<Phase>(i))] = peaks.requested_by_phase[i];
  }
  return {{"requested_peak_bytes", peaks.requested.bytes},
          {"allocated_peak_bytes", peaks.allocated.bytes},
          {"reserved_peak_bytes", peaks.reserved.bytes},
          {"fragmentation_bytes", peaks.fragmentation_bytes()},
          {"ooms", peaks.oom_count},
          {"requested_peak", peak_json(run, peaks.requested)},
          {"allocated_peak", peak_json(run, peaks.allocated)},
          {"reserved_peak", peak_json(run, peaks.reserved)},
          {"requested_peak_bytes_by_phase", std::move(phases)}};
}

int64_t byte_change(size_t after, size_t before) {
  return static_cast<int64_t>(after) - static_cast<int64_t>(before);
}

Json change_json(const WhatIfPeaks& before, const WhatIfPeaks& after) {
  return {{"requested_peak_bytes", byte_change(after.requested.bytes, before.requested.bytes)},
          {"allocated_peak_bytes", byte_change(after.allocated.bytes, before.allocated.bytes)},
          {"reserved_peak_bytes", byte_change(after.reserved.bytes, before.reserved.bytes)},
          {"fragmentation_bytes",
           byte_change(after.fragmentation_bytes(), before.fragmentation_bytes())}};
}

Json edit_json(const EditOutcome& outcome) {
  const EditEffect& effect = outcome.effect;
  return {{"edit", outcome.edit.text},
          {"allocations", effect.allocation_count},
          {"invocations", effect.invocation_count},
          {"invocations_found", effect.found_invocations},
          {"recomputed_bytes_per_iteration", effect.recomputed_bytes_per_iteration},
          {"offloaded_bytes_per_iteration", effect.offloaded_bytes_per_iteration},
          {"note", outcome.note}};
}

}  // namespace

Json what_if_json(const DeviceRecording& run, const WhatIfResult& result) {
  Json edits = Json::array();
  for (const EditOutcome& each : result.edits) edits.push_back(edit_json(each));
  Json stacks = Json::array();
  for (size_t i = 0; i < std::min(result.after_stacks.size(), kMaxStacks); ++i) {
    const StackTotal& each = result.after_stacks[i];
    stacks.push_back({{"bytes", each.bytes},
                      {"count", each.count},
                      {"stack", stack_json(run.recording().stacks().frames(each.stack))}});
  }
  return {{"file", run.name()},
          {"device", run.device().value()},
          {"before", run_peaks_json(run, result.before)},
          {"after", run_peaks_json(run, result.after)},
          {"change", change_json(result.before, result.after)},
          {"edits", std::move(edits)},
          {"after_stacks", std::move(stacks)},
          {"iterations", result.iteration_count},
          {"warnings", result.warnings},
          {"recorded", recorded_json(run)}};
}

std::string moment_text(const DeviceRecording& run, std::optional<uint32_t> entry) {
  if (!entry) return "before the recording";
  const Iterations& iterations = training_of(run).iterations;
  const std::string phase = name(iterations.phases[iterations.phase_index_at(*entry)].phase);
  const uint32_t iteration = iterations.at(*entry);
  if (iteration == Iterations::kNoIteration) return phase;
  return text(phase, ", iteration ", iteration + 1);
}

}  // namespace ashlar
