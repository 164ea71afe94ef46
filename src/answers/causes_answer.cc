// SPDX-License-Identifier: Apache-2.0
//
// A report, and then all settings that are worth trying.
#include "answers/causes_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/replay.h"
#include "analysis/report.h"
#include "analysis/tune.h"
#include "answers/report_answer.h"
#include "answers/tune_answer.h"
#include "view/json_text.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

ReplayOptions replay_options_of(const view::Document& document) {
  const view::Recording& recording = document.recording();
  ReplayOptions options;
  options.device = document.device();
  options.recorded = options.allocator = recording.options;
  options.capacity_bytes = assumed_capacity_bytes(recording.snapshot, document.device());
  const bool has_oom =
      std::any_of(document.trace().begin(), document.trace().end(),
                  [](const TraceEntry& entry) { return entry.action == TraceAction::kOom; });
  // Where it ran out, it had been allowed little more than it had.
  if (has_oom) options.cap_bytes = document.reserved_at(document.reserved_peak());
  return options;
}

Json report_as_json(const Report& report, const AllocatorOptions& recorded) {
  Json words = Json::object();
  for (const CauseRow& row : cause_rows(report.causes)) words[row.key] = row.words;
  Json answer = peaks_answer(report);
  answer["at_peak"]["words"] = std::move(words);
  answer["advice"] = advice_of(report, recorded);
  return answer;
}

Json trial_or_null(const TuneResult& result, std::optional<size_t> place) {
  return place ? trial_as_json(result.trials[*place]) : Json();
}

void add_trials(const TuneResult& result, Json& answer) {
  answer["results"] = Json::array();
  for (const Trial& trial : result.trials) answer["results"].push_back(trial_as_json(trial));
  answer["best"] = trial_or_null(result, result.best);
  answer["paste"] = result.best
                        ? Json(line_to_paste(result.trials[*result.best].setting, result.origin))
                        : Json();
  answer["paged"] = trial_or_null(result, result.paged);
}

}  // namespace

Result<std::string> causes_json(const view::Document& document,
                                const std::function<bool()>& is_wanted) {
  const Snapshot& snapshot = document.recording().snapshot;
  ReplayOptions replaying = replay_options_of(document);
  replaying.is_wanted = is_wanted;
  const Result<Report> report = make_report(snapshot, document.allocations(), replaying);
  if (!report.ok()) return report.status();

  TuneOptions tuning;
  tuning.recorded = replaying.recorded;
  tuning.device = replaying.device;
  tuning.capacity_bytes = replaying.capacity_bytes;
  tuning.is_wanted = is_wanted;
  const Result<TuneResult> tuned = tune(snapshot, document.allocations(), tuning);
  if (!tuned.ok()) return tuned.status();

  Json answer = report_as_json(*report, document.recording().options);
  add_trials(*tuned, answer);
  return view::json_text(answer);
}

}  // namespace ashlar
