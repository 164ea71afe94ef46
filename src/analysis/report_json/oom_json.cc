// SPDX-License-Identifier: Apache-2.0
//
// Converts an explained failure to JSON: the verdict, the failed request, the state of the
// allocator, the memory in use, and the settings under which the run completes.
#include "analysis/report_json/oom_json.h"

#include <nlohmann/json.hpp>

#include "analysis/report_json/oom_verdict.h"
#include "analysis/report_json/recorded_json.h"
#include "analysis/report_json/stack_json.h"
#include "analysis/report_json/tune_json.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

Json occupied_segment_json(const Recording& recording, const OccupiedSegment& segment) {
  Json blocks = Json::array();
  for (const OccupyingBlock& block : segment.largest_blocks) {
    blocks.push_back({{"address", block.address.value()},
                      {"bytes", block.bytes},
                      {"requested_bytes", block.requested_bytes},
                      {"made_at_entry", block.alloc_entry ? Json(*block.alloc_entry) : Json()},
                      {"age_us", block.age_us ? Json(*block.age_us) : Json()}});
    put_frames(blocks.back(), recording, block.stack);
  }
  return {{"address", segment.address.value()}, {"total_bytes", segment.total_bytes},
          {"free_bytes", segment.free_bytes},   {"largest_hole_bytes", segment.largest_hole_bytes},
          {"stream", segment.stream.value()},   {"is_usable", segment.is_usable},
          {"live_blocks", segment.live_count},  {"largest_blocks", blocks}};
}

Json state_as_json(const Recording& recording, const OomState& state) {
  Json occupied = Json::array();
  for (const OccupiedSegment& segment : state.occupied_segments) {
    occupied.push_back(occupied_segment_json(recording, segment));
  }
  return {{"reserved_bytes", state.reserved_bytes},
          {"allocated_bytes", state.allocated_bytes},
          {"free_bytes", state.free_bytes},
          {"usable_free_bytes", state.usable_free_bytes},
          {"largest_hole_bytes", state.largest_hole_bytes},
          {"largest_usable_hole_bytes", state.largest_usable_hole_bytes},
          {"pinned_segments", occupied}};
}

Json limit_json(const OomLimit& limit) {
  return {{"is_inferred", limit.is_inferred()},    {"at_least_bytes", limit.at_least_bytes},
          {"below_bytes", limit.below_bytes},      {"replayed_bytes", limit.replayed_bytes},
          {"is_of_device", limit.is_device_limit}, {"varies", limit.varies}};
}

Json verdict_json(const DeviceRecording& run, const OomReport& report) {
  const TuneResult& settings = report.settings;
  const bool has_best = report.can_compare() && settings.best;
  const bool has_paged = report.can_compare() && settings.paged;
  const auto trial = [&](bool has, const std::optional<size_t>& index) {
    return has ? trial_json(settings.trials[*index]) : Json();
  };
  Json paste;
  if (has_best) paste = shell_assignment(settings.trials[*settings.best].setting, run);
  return {{"reason", key_of(report.reason)},
          {"text", verdict_text(report)},
          {"remedies", remedies(run, report)},
          {"needed_bytes", report.needed_bytes},
          {"excess_bytes", report.excess_bytes()},
          {"missing_bytes", missing_bytes(report)},
          {"obtainable_bytes", report.obtainable_bytes()},
          {"best", trial(has_best, settings.best)},
          {"paste", paste},
          {"paged", trial(has_paged, settings.paged)}};
}

Json holders_json(const DeviceRecording& run, const OomReport& report) {
  Json list = Json::array();
  for (const OomHolder& holder : holders_at_failure(run, report)) {
    list.push_back(
        {{"bytes", holder.bytes}, {"count", holder.count}, {"category", name(holder.category)}});
    put_stack(list.back(), run.recording().stacks(), holder.stack);
  }
  return list;
}

Json held_categories_json(const DeviceRecording& run, const OomReport& report) {
  Json list = Json::array();
  const CategoryBytes categories = categories_at_failure(run, report);
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (categories[i] == 0) continue;
    list.push_back({{"name", name(static_cast<Category>(i))}, {"bytes", categories[i]}});
  }
  return list;
}

}  // namespace

Json oom_json(const DeviceRecording& recording, const std::optional<OomReport>& report,
              const std::optional<OomLimit>& given_limit) {
  Json json = {{"file", recording.name()},
               {"device", recording.device().value()},
               {"out_of_memory", report.has_value()}};
  if (report) {
    const auto& requested = report->requested_bytes;
    Json fitting = Json::array();
    for (const Trial& trial : report->settings.trials) {
      const bool fits = trial.completes() && trial.is_comparable && report->can_compare();
      if (fits) fitting.push_back(trial_json(trial));
    }
    json["entry"] = report->entry ? Json(*report->entry) : Json();
    json["was_recorded"] = report->was_recorded;
    json["failures"] = report->failure_count;
    json["verdict"] = verdict_json(recording, *report);
    json["requested_bytes"] = requested ? Json(*requested) : Json();
    json["rounded_bytes"] = report->rounded_bytes;
    json["segment_bytes"] = report->segment_bytes;
    json["stream"] = report->stream.value();
    put_frames(json, recording.recording(), report->stack);
    json["device_free_bytes"] = report->device_free_bytes;
    json["limit"] = limit_json(report->limit);
    json["is_reproduced"] = report->is_reproduced;
    json["state"] = state_as_json(recording.recording(), report->state);
    json["live_requested_bytes"] = report->live_requested_bytes;
    json["holders"] = holders_json(recording, *report);
    json["categories"] = held_categories_json(recording, *report);
    json["settings_tried"] = report->settings.trials.size();
    json["fitting"] = fitting;
  }
  if (!report && given_limit) json["limit"] = limit_json(*given_limit);
  json["recorded"] = recorded_json(recording);
  return json;
}

}  // namespace ashlar
