// SPDX-License-Identifier: Apache-2.0
//
// Makes the report and converts it to JSON. advice.cc makes the recommendations.
#include "analysis/report_json/report_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/report_json/stack_json.h"
#include "analysis/settings.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Result<Report> report_recording(const DeviceRecording& run, std::function<bool()> keep_going) {
  ReplayOptions options;
  options.device = run.device();
  options.keep_going = std::move(keep_going);
  options.recorded = options.allocator = run.options();
  options.capacity_bytes = assumed_capacity_bytes(run.snapshot(), run.device());
  // The limit of a run with a failed allocation was little more than its peak of reserved memory;
  // that peak is used as the cap.
  if (run.has_oom()) options.cap_bytes = run.timeline().reserved_peak.bytes;
  return make_report(run.snapshot(), run.allocations(), options);
}

std::vector<StackTotal> stacks_at_peak(const DeviceRecording& run, const Report& report) {
  return group_by_stack(run.allocations(), report.at_peak, run.recording().stack_numbers());
}

std::vector<CauseRow> cause_rows(const GapCauses& causes) {
  return {
      {"rounding", "rounding: blocks larger than their requests", causes.rounding_bytes},
      {"other_pool", "free in another pool", causes.other_pool_bytes},
      {"other_stream", "free on another stream", causes.other_stream_bytes},
      {"other_size", "free in the pool of the other size class (up to 1 MiB, or above)",
       causes.other_size_pool_bytes},
      {"beside_live",
       "fragmented: free holes too small for this request, in segments kept alive by other blocks",
       causes.fragmented_bytes},
      {"unused", "unused segments", causes.unused_bytes},
  };
}

Json peaks_json(const Report& report) {
  const AllocatorStats& stats = report.replayed.stats;
  Json causes = Json::object();
  for (const CauseRow& row : cause_rows(report.causes)) causes[row.key] = row.bytes;
  return {
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
        {"causes", causes}}},
      {"ooms", report.replayed.ooms.size()},
  };
}

Json report_json(const DeviceRecording& run, const Report& report,
                 const std::vector<StackTotal>& stack_totals) {
  Json alternatives = Json::array();
  for (const Alternative& other : report.alternatives) {
    alternatives.push_back({{"engine", engine_name(other.setting.options)},
                            {"conf", other.setting.conf},
                            {"peak_reserved_bytes", other.peak_reserved_bytes},
                            {"ooms", other.oom_count}});
  }
  Json at_peak = Json::array();
  for (const StackTotal& use : stack_totals) {
    at_peak.push_back({{"bytes", use.bytes},
                       {"count", use.count},
                       {"stack", stack_json(run.recording().stacks().frames(use.stack))}});
  }
  Json json = {
      {"file", run.name()},
      {"device", run.device().value()},
      {"entries", run.trace().size()},
  };
  json.update(peaks_json(report));
  json["at_peak"]["stacks"] = std::move(at_peak);
  json["alternatives"] = std::move(alternatives);
  json["advice"] = make_advice(report, run.options());
  return json;
}

}  // namespace ashlar
