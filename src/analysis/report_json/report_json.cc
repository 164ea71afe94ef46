// SPDX-License-Identifier: Apache-2.0
//
// Making the report, then the answer; the advice is in advice.cc.
#include "analysis/report_json/report_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/report_json/stack_json.h"
#include "analysis/settings.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Result<Report> report_on(const DeviceRecording& run, std::function<bool()> is_wanted) {
  ReplayOptions options;
  options.device = run.device();
  options.is_wanted = std::move(is_wanted);
  options.recorded = options.allocator = run.options();
  options.capacity_bytes = assumed_capacity_bytes(run.snapshot(), run.device());
  // Where it ran out, it had been allowed little more than it had.
  if (run.has_oom()) options.cap_bytes = run.timeline().reserved.bytes;
  return make_report(run.snapshot(), run.allocations(), options);
}

std::vector<StackUse> users_at_peak(const DeviceRecording& run, const Report& report) {
  return group_by_stack(run.allocations(), report.at_peak, run.recording().stack_numbers());
}

std::vector<CauseRow> cause_rows(const Causes& causes) {
  return {
      {"rounding", "blocks larger than what was asked for", causes.rounding},
      {"other_pool", "free, but in another pool", causes.other_pool},
      {"other_stream", "free, but bound to another stream", causes.other_stream},
      {"other_size", "free, but kept for blocks of the other kind (small or large)",
       causes.other_size},
      {"beside_live",
       "free, but beside live blocks: holes too small to serve, impossible to give back",
       causes.beside_live},
      {"unused", "whole segments that nobody used", causes.unused},
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
                 const std::vector<StackUse>& users) {
  Json alternatives = Json::array();
  for (const Alternative& other : report.alternatives) {
    alternatives.push_back({{"engine", engine_of(other.setting.options)},
                            {"conf", other.setting.conf},
                            {"peak_reserved_bytes", other.peak_reserved_bytes},
                            {"ooms", other.oom_count}});
  }
  Json at_peak = Json::array();
  for (const StackUse& use : users) {
    at_peak.push_back({{"bytes", use.bytes},
                       {"count", use.count},
                       {"stack", stack_json(run.recording().stacks().frames(use.stack))}});
  }
  Json answer = {
      {"file", run.name()},
      {"device", run.device().value()},
      {"entries", run.trace().size()},
  };
  answer.update(peaks_json(report));
  answer["at_peak"]["stacks"] = std::move(at_peak);
  answer["alternatives"] = std::move(alternatives);
  answer["advice"] = advice_of(report, run.options());
  return answer;
}

}  // namespace ashlar
