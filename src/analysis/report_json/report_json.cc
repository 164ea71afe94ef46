// SPDX-License-Identifier: Apache-2.0
//
// Makes the report and converts it to JSON. advice.cc makes the recommendations.
#include "analysis/report_json/report_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/report_json/recorded_json.h"
#include "analysis/report_json/replay_json.h"
#include "analysis/report_json/stack_json.h"
#include "analysis/report_json/training_json.h"
#include "analysis/settings.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

Json replayed_json(const Report& report) {
  if (!report.replayed) return {};
  const AllocatorStats& stats = report.replayed->stats;
  return {{"peak_requested_bytes", stats.requested_bytes.all.peak},
          {"peak_allocated_bytes", stats.allocated_bytes.all.peak},
          {"peak_active_bytes", stats.active_bytes.all.peak},
          {"peak_reserved_bytes", stats.reserved_bytes.all.peak},
          {"ooms", report.replayed->ooms.size()},
          {"starts_as_recorded", report.replayed->starts_as_recorded},
          {"fidelity", fidelity_json(report.replayed->fidelity)}};
}

Json growth_json(const DeviceRecording& run, const std::optional<Growth>& growth) {
  if (!growth) return {};
  Json request;
  if (growth->request) {
    const TraceEntry& entry = run.trace()[*growth->request];
    request = {{"entry", *growth->request},
               {"bytes", entry.bytes},
               {"stream", entry.stream.value()},
               {"stack", stack_json(run.recording().frames(entry.stack))}};
  }
  return {{"entry", growth->entry}, {"bytes", growth->bytes}, {"request", request}};
}

Json requested_peak_json(const Timeline& timeline) {
  const Peak& peak = timeline.requested_peak;
  return {{"entry", peak.entry ? Json(*peak.entry) : Json()},
          {"requested_bytes", peak.bytes},
          {"reserved_bytes", timeline.at(peak.entry).reserved_bytes}};
}

}  // namespace

Result<Report> report_recording(const DeviceRecording& run, std::function<bool()> keep_going) {
  ReplayOptions options;
  options.device = run.device();
  options.recorded = options.allocator = run.options();
  options.keep_going = std::move(keep_going);
  if (run.has_history()) {
    const Result<ReplayLimits> limits = find_limits(run, {}, {}, options.keep_going);
    if (!limits.ok()) return limits.status();
    options.capacity_bytes = limits->capacity_bytes;
    options.cap_bytes = limits->cap_bytes;
  }
  return make_report(run, options);
}

std::vector<StackTotal> stacks_at_peak(const DeviceRecording& run, const Report& report,
                                       StackDetail detail) {
  return group_by_stack(run.allocations(), report.at_peak, run.recording().stack_numbers(detail));
}

std::vector<CauseRow> cause_rows(const GapCauses& causes) {
  return {
      {"rounding", "rounding: blocks larger than their requests", causes.rounding_bytes},
      {"other_pool", "free in another pool", causes.other_pool_bytes},
      {"other_stream", "free on another stream", causes.other_stream_bytes},
      {"other_size", "free in the pool of the other size class (up to 1 MiB, or above)",
       causes.other_size_pool_bytes},
      {"beside_live", "fragmented: free holes in segments that blocks in use keep alive",
       causes.fragmented_bytes},
      {"unused", "unused segments", causes.unused_bytes},
  };
}

Json peaks_json(const Report& report) {
  Json causes = Json::object();
  for (const CauseRow& row : cause_rows(report.causes)) causes[row.key] = row.bytes;
  return {
      {"peak_requested_bytes", report.peak_requested_bytes},
      {"peak_reserved_bytes", report.peak_reserved_bytes},
      {"peak_entry", report.peak_entry ? Json(*report.peak_entry) : Json()},
      {"lower_bound_bytes", report.bound.requested_bytes},
      {"packed_bytes", report.bound.packed_bytes},
      {"at_peak",
       {{"reserved_bytes", report.causes.reserved_bytes()},
        {"requested_bytes", report.causes.requested_bytes},
        {"gap_bytes", report.causes.gap_bytes()},
        {"causes", causes}}},
      {"empty_cache_bytes", report.releasable_bytes},
      {"ooms", report.oom_count},
      // Known only from a replay.
      {"peak_allocated_bytes",
       report.replayed ? Json(report.replayed->stats.allocated_bytes.all.peak) : Json()},
      {"peak_active_bytes",
       report.replayed ? Json(report.replayed->stats.active_bytes.all.peak) : Json()},
      {"replayed", replayed_json(report)},
  };
}

Json report_json(const DeviceRecording& run, const Report& report, StackDetail detail) {
  Json alternatives = Json::array();
  for (const Alternative& other : report.alternatives) {
    alternatives.push_back({{"engine", engine_name(other.setting.options)},
                            {"conf", other.setting.conf},
                            {"peak_reserved_bytes", other.peak_reserved_bytes},
                            {"ooms", other.oom_count}});
  }
  Json at_peak = Json::array();
  for (const StackTotal& use : stacks_at_peak(run, report, detail)) {
    at_peak.push_back({{"bytes", use.bytes}, {"count", use.count}});
    put_stack(at_peak.back(), run.recording().stacks(detail), use.stack);
  }
  Json json = {
      {"file", run.name()},
      {"device", run.device().value()},
      {"entries", run.trace().size()},
  };
  json.update(peaks_json(report));
  json["at_peak"]["stacks"] = std::move(at_peak);
  json["last_growth"] = growth_json(run, report.last_growth);
  json["requested_peak"] = requested_peak_json(run.timeline());
  json["categories"] = categories_json(run);
  json["iterations"] = iterations_json(run);
  json["alternatives"] = std::move(alternatives);
  json["advice"] = make_advice(run, report);
  json["recorded"] = recorded_json(run);
  return json;
}

}  // namespace ashlar
