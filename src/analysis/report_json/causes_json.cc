// SPDX-License-Identifier: Apache-2.0
//
// Makes a report, then a tuning run, and combines their JSON.
#include "analysis/report_json/causes_json.h"

#include <nlohmann/json.hpp>

#include "analysis/replay/replay.h"
#include "analysis/replay/report.h"
#include "analysis/replay/tune.h"
#include "analysis/report_json/report_json.h"
#include "analysis/report_json/tune_json.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

Json report_as_json(const Report& report, const AllocatorOptions& recorded) {
  Json explanations = Json::object();
  for (const CauseRow& row : cause_rows(report.causes)) explanations[row.key] = row.description;
  Json json = peaks_json(report);
  json["at_peak"]["explanations"] = std::move(explanations);
  json["advice"] = make_advice(report, recorded);
  return json;
}

Json trial_or_null(const TuneResult& result, std::optional<size_t> place) {
  return place ? trial_json(result.trials[*place]) : Json();
}

void add_trials(const TuneResult& result, Json& json) {
  json["results"] = Json::array();
  for (const Trial& trial : result.trials) json["results"].push_back(trial_json(trial));
  json["best"] = trial_or_null(result, result.best);
  json["paste"] =
      result.best
          ? Json(shell_assignment(result.trials[*result.best].setting, result.allocator_kind))
          : Json();
  json["paged"] = trial_or_null(result, result.paged);
}

}  // namespace

Result<std::string> causes_json(const DeviceRecording& recording,
                                const std::function<bool()>& keep_going) {
  const Result<Report> report = report_recording(recording, keep_going);
  if (!report.ok()) return report.status();

  TuneOptions tuning;
  tuning.recorded = recording.options();
  tuning.device = recording.device();
  tuning.capacity_bytes = assumed_capacity_bytes(recording.snapshot(), recording.device());
  tuning.keep_going = keep_going;
  const Result<TuneResult> tuned = tune(recording.snapshot(), recording.allocations(), tuning);
  if (!tuned.ok()) return tuned.status();

  Json json = report_as_json(*report, recording.options());
  add_trials(*tuned, json);
  // Strings from files may contain any bytes; invalid UTF-8 is replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ashlar
