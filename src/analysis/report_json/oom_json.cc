// SPDX-License-Identifier: Apache-2.0
//
// Converts an explained failure to JSON: the failed request, the state of the allocator, and the
// settings under which the run completes.
#include "analysis/report_json/oom_json.h"

#include <nlohmann/json.hpp>

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
                      {"age_us", block.age_us ? Json(*block.age_us) : Json()},
                      {"frames", stack_json(recording.frames(block.stack))}});
  }
  return {{"address", segment.address.value()}, {"total_bytes", segment.total_bytes},
          {"free_bytes", segment.free_bytes},   {"largest_hole_bytes", segment.largest_hole_bytes},
          {"stream", segment.stream.value()},   {"is_usable", segment.is_usable},
          {"live_blocks", segment.live_count},  {"largest_blocks", blocks}};
}

Json state_as_json(const Recording& recording, const std::optional<OomState>& state) {
  if (!state) return {};
  Json occupied = Json::array();
  for (const OccupiedSegment& segment : state->occupied_segments) {
    occupied.push_back(occupied_segment_json(recording, segment));
  }
  return {{"reserved_bytes", state->reserved_bytes},
          {"allocated_bytes", state->allocated_bytes},
          {"free_bytes", state->free_bytes},
          {"usable_free_bytes", state->usable_free_bytes},
          {"largest_hole_bytes", state->largest_hole_bytes},
          {"largest_usable_hole_bytes", state->largest_usable_hole_bytes},
          {"pinned_segments", occupied}};
}

}  // namespace

Json oom_json(const DeviceRecording& recording, const std::optional<OomReport>& report) {
  Json json = {{"file", recording.name()},
               {"device", recording.device().value()},
               {"out_of_memory", report.has_value()}};
  if (report) {
    const auto& requested = report->requested_bytes;
    Json fitting = Json::array();
    for (const Trial& trial : report->settings.trials) {
      if (trial.completes()) fitting.push_back(trial_json(trial));
    }
    json["entry"] = report->entry ? Json(*report->entry) : Json();
    json["was_recorded"] = report->was_recorded;
    json["requested_bytes"] = requested ? Json(*requested) : Json();
    json["rounded_bytes"] = report->rounded_bytes;
    json["segment_bytes"] = report->segment_bytes;
    json["stream"] = report->stream.value();
    json["frames"] = stack_json(recording.recording().frames(report->stack));
    json["device_free_bytes"] = report->device_free_bytes;
    json["limit"] = {{"is_inferred", report->limit.is_inferred()},
                     {"at_least_bytes", report->limit.at_least_bytes},
                     {"below_bytes", report->limit.below_bytes},
                     {"replayed_bytes", report->limit.replayed_bytes},
                     {"is_of_device", report->limit.is_device_limit}};
    json["state"] = state_as_json(recording.recording(), report->state);
    json["settings_tried"] = report->settings.trials.size();
    json["fitting"] = fitting;
  }
  return json;
}

}  // namespace ashlar
