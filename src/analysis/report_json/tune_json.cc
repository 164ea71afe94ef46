// SPDX-License-Identifier: Apache-2.0
//
// Converts every trial to one object, and formats the best setting as a shell assignment.
#include "analysis/report_json/tune_json.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

Json trial_or_null(const Trial* trial) { return trial != nullptr ? trial_json(*trial) : Json(); }

}  // namespace

Json tune_json(const TuneSummary& tuned) {
  Json results = Json::array();
  for (const Trial& trial : tuned.result.trials) results.push_back(trial_json(trial));
  const Trial* best = tuned.best();
  return {
      {"file", tuned.recording.name()},
      {"device", tuned.options.device.value()},
      {"capacity_bytes", tuned.options.capacity_bytes},
      {"cap_bytes", tuned.options.cap_bytes ? Json(*tuned.options.cap_bytes) : Json()},
      {"results", results},
      {"best", trial_or_null(best)},
      {"paste", best != nullptr ? Json(shell_assignment(best->setting, tuned.result.allocator_kind))
                                : Json()},
      {"paged", trial_or_null(tuned.paged())},
      {"lower_bound_bytes", tuned.result.lower_bound_bytes},
  };
}

Json trial_json(const Trial& trial) {
  const auto& least = trial.min_capacity_bytes;
  return {{"engine", engine_name(trial.setting.options)},
          {"conf", trial.setting.conf},
          {"is_recorded", trial.setting.is_recorded},
          {"peak_reserved_bytes", trial.peak_reserved_bytes},
          {"driver_us", trial.driver_us},
          {"ooms", trial.oom_count},
          {"min_capacity_bytes", least ? Json(*least) : Json()}};
}

// The value is quoted, because lists of divisions contain shell metacharacters.
std::string shell_assignment(const Setting& setting, RecordedAllocator allocator_kind) {
  return text(allocator_kind == RecordedAllocator::kPytorch ? "PYTORCH_CUDA_ALLOC_CONF"
                                                            : "ASHLAR_ALLOC_CONF",
              "=\"", format_setting(setting, allocator_kind), "\"");
}

}  // namespace ashlar
