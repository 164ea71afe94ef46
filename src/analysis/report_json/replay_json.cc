// SPDX-License-Identifier: Apache-2.0
//
// Converts settings to replay options, and results to JSON.
#include "analysis/report_json/replay_json.h"

#include <nlohmann/json.hpp>

#include "analysis/report_json/recorded_json.h"
#include "analysis/settings.h"
#include "ashlar/device_call.h"
#include "config/allocator_options.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

Json event_as_json(const std::optional<SegmentEvent>& event) {
  return event ? Json(describe(*event)) : Json();
}

Json driver_as_json(const ReplayResult& result) {
  Json calls = Json::object();
  for (size_t i = 0; i < kDeviceCallCount; ++i) {
    const auto call = static_cast<DeviceCall>(i);
    if (result.driver.count_of(call) == 0) continue;
    calls[std::string(name(call))] = result.driver.count_of(call);
  }
  const double modelled_us = static_cast<double>(result.driver.total_ns) / 1000;
  return {{"calls", calls},
          {"modelled_us", modelled_us},
          {"share_of_run", result.recorded_us ? Json(modelled_us / *result.recorded_us) : Json()}};
}

}  // namespace

Json fidelity_json(const std::optional<Fidelity>& fidelity) {
  if (!fidelity) return {};
  Json divergence;
  if (const auto& first = fidelity->first_divergence) {
    divergence = {{"index", first->index},
                  {"recorded", event_as_json(first->recorded)},
                  {"replayed", event_as_json(first->replayed)}};
  }
  return {{"recorded", fidelity->recorded_count},
          {"matched", fidelity->matched_count},
          {"first_divergence", divergence}};
}

Result<ReplayOptions> replay_options(const ReplaySettings& settings,
                                     const DeviceRecording& recording) {
  ReplayOptions options;
  options.device = recording.device();
  options.recorded = recording.options();
  options.allocator = recording.options();
  options.capacity_bytes = assumed_capacity_bytes(recording.snapshot(), recording.device());
  if (settings.conf) {
    const Result<Setting> setting = parse_setting(*settings.conf, recording.options());
    if (!setting.ok()) return setting.status();
    options.allocator = setting->options;
  }
  if (settings.engine) {
    Result<AllocatorOptions> parsed = parse_allocator_options("engine:" + *settings.engine);
    if (!parsed.ok()) return parsed.status();
    options.allocator.engine = parsed->engine;
  }
  return options;
}

Json replay_json(const ReplaySummary& replayed) {
  const ReplayResult& result = replayed.result;
  const AllocatorStats& stats = result.stats;
  Json ooms = Json::array();
  for (const ReplayedOom& oom : result.ooms) {
    ooms.push_back({{"entry", oom.entry ? Json(*oom.entry) : Json()},
                    {"was_recorded", oom.was_recorded},
                    {"message", oom.message}});
  }
  return {
      {"file", replayed.recording.name()},
      {"engine", engine_name(replayed.options.allocator)},
      {"conf", format_conf(replayed.options.allocator)},
      {"device", replayed.options.device.value()},
      {"capacity_bytes", replayed.options.capacity_bytes},
      {"cap_bytes", replayed.options.cap_bytes ? Json(*replayed.options.cap_bytes) : Json()},
      {"is_limit_recorded", replayed.recorded_limit.has_value()},
      {"starts_as_recorded", result.starts_as_recorded},
      {"events", result.event_count},
      {"allocs", result.alloc_count},
      {"frees", result.free_count},
      {"peak_requested_bytes", stats.requested_bytes.all.peak},
      {"peak_allocated_bytes", stats.allocated_bytes.all.peak},
      {"peak_active_bytes", stats.active_bytes.all.peak},
      {"peak_reserved_bytes", stats.reserved_bytes.all.peak},
      {"retries", stats.alloc_retries},
      {"ooms", result.ooms.size()},
      {"oom_entries", ooms},
      {"driver", driver_as_json(result)},
      {"fidelity", fidelity_json(result.fidelity)},
      {"seconds", replayed.seconds},
      {"recorded", recorded_json(replayed.recording)},
  };
}

}  // namespace ashlar
