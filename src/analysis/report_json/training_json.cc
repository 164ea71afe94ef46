// SPDX-License-Identifier: Apache-2.0
//
// Converts the results of training_of().
#include "analysis/report_json/training_json.h"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "analysis/report_json/stack_json.h"
#include "analysis/training/highest_iteration.h"
#include "analysis/training/training_analysis.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

struct RuleUse {
  size_t bytes = 0;
  size_t count = 0;
};

Json phases_json(const IterationPeaks& peaks) {
  Json json = Json::object();
  for (size_t i = 0; i < kPhaseCount; ++i) {
    if (peaks.by_phase[i].entry) json[name(static_cast<Phase>(i))] = peaks.by_phase[i].bytes;
  }
  return json;
}

Json highest_json(const DeviceRecording& run) {
  const std::optional<HighestIteration> highest = find_highest_iteration(run);
  if (!highest) return {};
  return {
      {"index", highest->iteration},
      {"phase", name(highest->phase)},
      {"median_index", highest->median_iteration},
      {"difference_bytes", highest->difference_bytes},
      {"category", highest->category ? Json(name(*highest->category)) : Json()},
      {"category_difference_bytes", highest->category_difference_bytes},
      {"stack",
       highest->stack ? stack_json(run.recording().stacks().frames(*highest->stack)) : Json()},
      {"stack_difference_bytes", highest->stack_difference_bytes},
  };
}

}  // namespace

Json categories_json(const DeviceRecording& run) {
  const Categories& categories = training_of(run).categories;
  std::map<CategoryRule, RuleUse> uses;
  for (const uint32_t id : allocations_at_peak(run)) {
    RuleUse& use = uses[categories.rules[id]];
    use.bytes += run.allocations().all[id].bytes;
    ++use.count;
  }
  Json list = Json::array();
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (categories.peak_bytes[i] == 0) continue;
    Json rules = Json::array();
    size_t bytes = 0;
    for (const auto& [rule, use] : uses) {
      if (category_of(rule) != static_cast<Category>(i)) continue;
      bytes += use.bytes;
      rules.push_back(
          {{"rule", describe(rule)}, {"bytes_at_peak", use.bytes}, {"count", use.count}});
    }
    list.push_back({{"name", name(static_cast<Category>(i))},
                    {"bytes_at_peak", bytes},
                    {"max_bytes", categories.peak_bytes[i]},
                    {"rules", std::move(rules)}});
  }
  return list;
}

Json iterations_json(const DeviceRecording& run) {
  const TrainingAnalysis& analysis = training_of(run);
  const Iterations& iterations = analysis.iterations;
  Json all = Json::array();
  for (size_t i = 0; i < iterations.all.size(); ++i) {
    const Iteration& each = iterations.all[i];
    all.push_back({{"first_entry", each.entries.first},
                   {"end_entry", each.entries.end},
                   {"complete", each.is_complete},
                   {"peak_requested_bytes", analysis.peaks[i].whole.bytes},
                   {"peak_by_phase", phases_json(analysis.peaks[i])}});
  }
  return {{"found_from", describe(iterations.source)},
          {"problem", iterations.problem.empty() ? Json() : Json(iterations.problem)},
          {"complete", iterations.complete_count()},
          {"highest", highest_json(run)},
          {"all", std::move(all)}};
}

Json training_json(const DeviceRecording& run) {
  const std::vector<PhaseSpan>& spans = training_of(run).iterations.phases;
  Json phases = Json::array();
  for (const PhaseSpan& span : spans) {
    if (phases.size() == kMaxListed) break;
    phases.push_back({{"first_entry", span.entries.first},
                      {"end_entry", span.entries.end},
                      {"phase", name(span.phase)}});
  }
  Json iterations = iterations_json(run);
  Json& all = iterations["all"];
  const size_t iteration_count = all.size();
  if (all.size() > kMaxListed) all.erase(all.begin() + kMaxListed, all.end());
  return {{"file", run.name()},
          {"device", run.device().value()},
          {"categories", categories_json(run)},
          {"iterations", std::move(iterations)},
          {"iteration_count", iteration_count},
          {"phases", std::move(phases)},
          {"phase_count", spans.size()}};
}

Json groups_json(const std::vector<AllocationGroup>& groups) {
  Json list = Json::array();
  for (const AllocationGroup& group : groups) {
    list.push_back({{"name", group.name}, {"bytes", group.bytes}, {"count", group.count}});
  }
  return list;
}

}  // namespace ashlar
