// SPDX-License-Identifier: Apache-2.0
//
// A report, and then all settings that are worth trying.
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
  Json words = Json::object();
  for (const CauseRow& row : cause_rows(report.causes)) words[row.key] = row.words;
  Json answer = peaks_json(report);
  answer["at_peak"]["words"] = std::move(words);
  answer["advice"] = advice_of(report, recorded);
  return answer;
}

Json trial_or_null(const TuneResult& result, std::optional<size_t> place) {
  return place ? trial_json(result.trials[*place]) : Json();
}

void add_trials(const TuneResult& result, Json& answer) {
  answer["results"] = Json::array();
  for (const Trial& trial : result.trials) answer["results"].push_back(trial_json(trial));
  answer["best"] = trial_or_null(result, result.best);
  answer["paste"] = result.best
                        ? Json(line_to_paste(result.trials[*result.best].setting, result.origin))
                        : Json();
  answer["paged"] = trial_or_null(result, result.paged);
}

}  // namespace

Result<std::string> causes_json(const DeviceRecording& recording,
                                const std::function<bool()>& is_wanted) {
  const Result<Report> report = report_on(recording, is_wanted);
  if (!report.ok()) return report.status();

  TuneOptions tuning;
  tuning.recorded = recording.options();
  tuning.device = recording.device();
  tuning.capacity_bytes = assumed_capacity_bytes(recording.snapshot(), recording.device());
  tuning.is_wanted = is_wanted;
  const Result<TuneResult> tuned = tune(recording.snapshot(), recording.allocations(), tuning);
  if (!tuned.ok()) return tuned.status();

  Json answer = report_as_json(*report, recording.options());
  add_trials(*tuned, answer);
  // Strings from files may contain any bytes; invalid UTF-8 is replaced.
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ashlar
