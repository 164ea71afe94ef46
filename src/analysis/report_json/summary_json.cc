// SPDX-License-Identifier: Apache-2.0
//
// Converts the metadata and the timeline of a recording.
#include "analysis/report_json/summary_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "analysis/settings.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json summary_json(const DeviceRecording& run) {
  const std::vector<TraceEntry>& trace = run.trace();
  const std::optional<double> seconds = run.seconds();
  const auto ooms = std::count_if(trace.begin(), trace.end(), [](const TraceEntry& entry) {
    return entry.action == TraceAction::kOom;
  });
  return {{"file", run.name()},
          {"device", run.device().value()},
          {"engine", engine_name(run.options())},
          {"conf", format_conf(run.options())},
          {"entries", trace.size()},
          {"seconds", seconds ? Json(*seconds) : Json()},
          {"allocations", run.allocations().all.size()},
          {"peak_requested_bytes", run.timeline().requested_peak.bytes},
          {"peak_reserved_bytes", run.timeline().reserved_peak.bytes},
          {"live_bytes_at_begin", run.timeline().initial.live_bytes},
          {"live_bytes_at_end", run.timeline().last().live_bytes},
          {"ooms", ooms},
          {"ignored_settings", run.recording().ignored_settings()}};
}

}  // namespace ashlar
