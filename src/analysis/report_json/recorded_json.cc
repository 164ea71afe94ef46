// SPDX-License-Identifier: Apache-2.0
//
// Collects values of the timeline, and formats the messages.
#include "analysis/report_json/recorded_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/units.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

const char* needs_history(HistoryQuestion question) {
  switch (question) {
    case HistoryQuestion::kReplayRun: return "A replay needs a history";
    case HistoryQuestion::kTuneSettings: return "Settings can only be compared with a history";
    case HistoryQuestion::kExplainFailure:
      return "Whether an allocation failed is only known from a history";
    case HistoryQuestion::kFindLeaks: return "Leaks can only be found in a history";
  }
  return "";
}

}  // namespace

Json recorded_json(const DeviceRecording& run) {
  const Timeline& timeline = run.timeline();
  const std::optional<uint32_t>& entry = timeline.reserved_peak.entry;
  Json others = Json::array();
  for (const DeviceSummary& other : run.recording().other_devices(run.device())) {
    others.push_back({{"device", other.device.value()},
                      {"entries", other.entry_count},
                      {"peak_reserved_bytes", other.peak_reserved_bytes},
                      {"ooms", other.oom_count}});
  }
  return {{"peak_requested_bytes", timeline.requested_peak.bytes},
          {"peak_reserved_bytes", timeline.reserved_peak.bytes},
          {"lower_bound_bytes", timeline.lower_bound.bytes},
          {"peak_entry", entry ? Json(*entry) : Json()},
          {"live_bytes_at_end", timeline.last().live_bytes},
          {"ooms", summarize_device(run.snapshot(), run.device()).oom_count},
          {"other_devices", others}};
}

std::string no_history_text(const DeviceRecording& run, HistoryQuestion question) {
  const TimelinePoint& state = run.timeline().last();
  return fmt::format(
      "{}. This snapshot has only the final state: {} reserved, {} requested; `ashlar report` "
      "explains it. To record a history, call torch.cuda.memory._record_memory_history() at the "
      "start of the program.",
      needs_history(question), format_bytes(state.reserved_bytes),
      format_bytes(state.requested_bytes()));
}

Json no_history_json(const DeviceRecording& run, HistoryQuestion question) {
  Json json = {
      {"file", run.name()}, {"device", run.device().value()}, {"entries", run.trace().size()}};
  if (question == HistoryQuestion::kExplainFailure) json["out_of_memory"] = nullptr;
  json["cannot_tell"] = no_history_text(run, question);
  json["recorded"] = recorded_json(run);
  return json;
}

Result<ReplayLimits> find_limits(const DeviceRecording& run, std::optional<size_t> capacity_bytes,
                                 std::optional<size_t> cap_bytes,
                                 std::function<bool()> keep_going) {
  return find_limits(run.snapshot(), run.allocations(),
                     {.device = run.device(),
                      .recorded = run.options(),
                      .capacity_bytes = capacity_bytes,
                      .cap_bytes = cap_bytes,
                      .keep_going = std::move(keep_going)});
}

TuneOptions tune_options(const DeviceRecording& run, const ReplayLimits& limits) {
  TuneOptions options;
  options.recorded = run.options();
  options.available = run.recording().pytorch().available;
  options.device = run.device();
  options.capacity_bytes = limits.capacity_bytes;
  options.cap_bytes = limits.cap_bytes;
  options.recorded_limit = limits.recorded;
  return options;
}

std::string format_limit(const OomLimit& limit) {
  if (!limit.is_inferred()) return format_bytes(limit.at_least_bytes);
  const std::string granted = format_bytes(limit.at_least_bytes);
  return fmt::format("about {} ({} was granted, {} refused)", granted, granted,
                     format_bytes(limit.below_bytes));
}

}  // namespace ashlar
