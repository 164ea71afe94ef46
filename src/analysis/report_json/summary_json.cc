// SPDX-License-Identifier: Apache-2.0
//
// Converts the metadata and the timeline of a recording.
#include "analysis/report_json/summary_json.h"

#include <nlohmann/json.hpp>

#include "analysis/settings.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json summary_json(const DeviceRecording& run) {
  const std::vector<TraceEntry>& trace = run.trace();
  const std::optional<double> seconds = run.seconds();
  const std::optional<uint32_t>& peak_entry = run.timeline().reserved_peak.entry;
  return {{"file", run.name()},
          {"device", run.device().value()},
          {"engine", engine_name(run.options())},
          {"conf", format_conf(run.options())},
          {"entries", trace.size()},
          {"seconds", seconds ? Json(*seconds) : Json()},
          {"allocations", run.allocations().all.size()},
          {"peak_requested_bytes", run.timeline().requested_peak.bytes},
          {"peak_reserved_bytes", run.timeline().reserved_peak.bytes},
          {"peak_entry", peak_entry ? Json(*peak_entry) : Json()},
          {"live_bytes_at_begin", run.timeline().initial.live_bytes},
          {"live_bytes_at_end", run.timeline().last().live_bytes},
          {"ooms", summarize_device(run.snapshot(), run.device()).oom_count},
          {"ignored_settings", run.recording().ignored_settings()}};
}

}  // namespace ashlar
