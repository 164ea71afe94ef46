// SPDX-License-Identifier: Apache-2.0
//
// Converts each leak to one object. A leak without stacks is identified by size class and stream.
#include "analysis/report_json/leaks_json.h"

#include <nlohmann/json.hpp>

#include "analysis/report_json/stack_json.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

Json leak_as_json(const Leak& leak, bool has_stacks, const StackIndex& stacks) {
  Json json = {
      {"growth_bytes", leak.growth_bytes},
      {"live_bytes", leak.live_bytes},
      {"live_count", leak.live_count},
      {"bytes_per_second", leak.bytes_per_second ? Json(*leak.bytes_per_second) : Json()},
      {"bytes_per_1000_entries", leak.bytes_per_1000_entries},
      {"r_squared", leak.r_squared},
      {"rising_share", leak.rising_fraction},
      {"floor_bytes", leak.floors},
  };
  if (has_stacks) {
    json["stack"] = stack_json(stacks.frames(leak.group.stack));
  } else {
    json["size_class_bytes"] = size_t{1} << leak.group.size_class;
    json["stream"] = leak.group.stream.value();
  }
  return json;
}

}  // namespace

Json leaks_json(const DeviceRecording& run, const LeakReport& leaks) {
  Json growing = Json::array();
  for (const Leak& leak : leaks.leaks) {
    growing.push_back(leak_as_json(leak, leaks.has_stacks, run.recording().stacks()));
  }
  const std::optional<double> seconds = run.seconds();
  return {{"file", run.name()},
          {"device", run.device().value()},
          {"entries", run.trace().size()},
          {"seconds", seconds ? Json(*seconds) : Json()},
          {"grouped_by", leaks.has_stacks ? "stack" : "size_class_and_stream"},
          {"groups", leaks.group_count},
          {"live_bytes_at_begin", run.timeline().initial.live_bytes},
          {"live_bytes_at_end", run.timeline().last().live_bytes},
          {"peak_requested_bytes", run.timeline().requested_peak.bytes},
          {"leaks", growing}};
}

}  // namespace ashlar
