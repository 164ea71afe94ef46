// SPDX-License-Identifier: Apache-2.0
//
// Converts each leak to one object. A leak without stacks is identified by size class and stream.
#include "analysis/report_json/leaks_json.h"

#include <nlohmann/json.hpp>

#include "analysis/report_json/recorded_json.h"
#include "analysis/report_json/stack_json.h"
#include "analysis/training/training_analysis.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

Json leak_as_json(const Leak& leak, bool has_stacks, const StackIndex& stacks) {
  Json json = {
      {"bytes_per_iteration", leak.bytes_per_iteration},
      {"growth_bytes", leak.growth_bytes},
      {"live_bytes", leak.live_bytes},
      {"live_count", leak.live_count},
      {"live_bytes_after_iterations", leak.live_after},
  };
  if (has_stacks) {
    put_stack(json, stacks, leak.group.stack);
  } else {
    json["size_class_bytes"] = size_t{1} << leak.group.size_class;
    json["stream"] = leak.group.stream.value();
  }
  return json;
}

}  // namespace

LeakReport leaks_of(const DeviceRecording& run, StackDetail detail,
                    const std::function<bool()>& keep_going) {
  return find_leaks(run.allocations(), training_of(run).iterations,
                    run.recording().stack_numbers(detail), {.keep_going = keep_going});
}

Json leaks_json(const DeviceRecording& run, const LeakReport& leaks, StackDetail detail) {
  Json growing = Json::array();
  for (const Leak& leak : leaks.leaks) {
    growing.push_back(leak_as_json(leak, leaks.has_stacks, run.recording().stacks(detail)));
  }
  const std::optional<double> seconds = run.seconds();
  return {{"file", run.name()},
          {"device", run.device().value()},
          {"entries", run.trace().size()},
          {"seconds", seconds ? Json(*seconds) : Json()},
          {"iterations", leaks.iteration_count},
          {"iterations_from", describe(training_of(run).iterations.source)},
          {"can_tell", leaks.has_enough_iterations()},
          {"problem", leaks.has_enough_iterations() ? Json() : Json(leaks.problem)},
          {"grouped_by", leaks.has_stacks ? "stack" : "size_class_and_stream"},
          {"groups", leaks.group_count},
          {"live_bytes_at_begin", run.timeline().initial.live_bytes},
          {"live_bytes_at_end", run.timeline().last().live_bytes},
          {"peak_requested_bytes", run.timeline().requested_peak.bytes},
          {"leaks", growing},
          {"recorded", recorded_json(run)}};
}

}  // namespace ashlar
