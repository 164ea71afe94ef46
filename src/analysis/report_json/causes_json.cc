// SPDX-License-Identifier: Apache-2.0
//
// Makes a report, then a tuning run, and combines their JSON.
#include "analysis/report_json/causes_json.h"

#include <nlohmann/json.hpp>

#include "analysis/replay/replay.h"
#include "analysis/replay/report.h"
#include "analysis/replay/tune.h"
#include "analysis/report_json/recorded_json.h"
#include "analysis/report_json/report_json.h"
#include "analysis/report_json/tune_json.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

Json report_as_json(const DeviceRecording& run, const Report& report) {
  Json explanations = Json::object();
  for (const CauseRow& row : cause_rows(report.causes)) explanations[row.key] = row.description;
  Json json = peaks_json(report);
  json["at_peak"]["explanations"] = std::move(explanations);
  json["advice"] = make_advice(run, report);
  return json;
}

// The viewer's page compares all results, so trials that are not comparable are left out.
void add_trials(const TuneSummary& tuned, Json& json) {
  const Json all = tune_json(tuned);
  for (const char* key : {"best", "paste", "paged", "note"}) json[key] = all[key];
  json["results"] = Json::array();
  if (!tuned.result.can_compare()) return;
  for (const Trial& trial : tuned.result.trials) {
    if (trial.is_comparable) json["results"].push_back(trial_json(trial));
  }
}

}  // namespace

Result<Json> causes_json(const DeviceRecording& recording,
                         const std::function<bool()>& keep_going) {
  const Result<Report> report = report_recording(recording, keep_going);
  if (!report.ok()) return report.status();

  Json json = report_as_json(recording, *report);
  const Result<ReplayLimits> limits = find_limits(recording, {}, {}, keep_going);
  if (!limits.ok()) return limits.status();
  TuneOptions tuning = tune_options(recording, *limits);
  tuning.keep_going = keep_going;
  const Result<TuneResult> tuned = tune(recording.snapshot(), recording.allocations(), tuning);
  if (!tuned.ok()) return tuned.status();
  add_trials({recording, tuning, *tuned}, json);
  return json;
}

}  // namespace ashlar
