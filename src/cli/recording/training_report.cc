// SPDX-License-Identifier: Apache-2.0
//
// Formats the results of training_of() as tables.
#include "cli/recording/training_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/report_json/report_json.h"
#include "analysis/training/highest_iteration.h"
#include "analysis/training/training_analysis.h"
#include "base/units.h"
#include "cli/recording/recorded_run.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

// The phases in the order in which they occur in an iteration.
constexpr Phase kPhasesInOrder[] = {Phase::kForward, Phase::kBackward, Phase::kOptimizer,
                                    Phase::kEvaluation, Phase::kOther};

// Describes the iteration with the highest peak, in one to four lines.
std::string highest_as_text(const DeviceRecording& run, const HighestIteration& highest) {
  const TrainingAnalysis& analysis = training_of(run);
  const std::string peak = format_bytes(analysis.peaks[highest.iteration].whole.bytes);
  const size_t count = analysis.iterations.all.size();
  if (count < 2)
    return fmt::format("  It peaks at {} in its {} phase.\n", peak, name(highest.phase));
  std::string text = fmt::format("  Iteration {} peaks highest: {} in its {} phase",
                                 group_digits(highest.iteration + 1), peak, name(highest.phase));
  if (highest.difference_bytes == 0) return text + ", as do most others.\n";
  text += fmt::format(",\n  {} more than iteration {}{}.\n", format_bytes(highest.difference_bytes),
                      group_digits(highest.median_iteration + 1),
                      count > 2 ? ", which is typical" : "");
  if (highest.category) {
    text += fmt::format("  It holds {} more {}", format_bytes(highest.category_difference_bytes),
                        name(*highest.category));
    if (highest.stack) {
      const StackIndex& stacks = run.recording().stacks();
      text += fmt::format("; the line with the most more is\n  {} ({})",
                          stack_lines(stacks.frames(*highest.stack), 1).front(),
                          format_bytes(highest.stack_difference_bytes));
    }
    text += ".\n";
  }
  return text;
}

Table phase_table(const TrainingAnalysis& analysis) {
  Table table({{}, {{}, Align::kRight}, {}});
  for (const Phase phase : kPhasesInOrder) {
    const auto index = static_cast<size_t>(phase);
    const IterationPeaks* highest = nullptr;
    for (const IterationPeaks& each : analysis.peaks) {
      if (!each.by_phase[index].entry) continue;
      if (highest == nullptr || each.by_phase[index].bytes > highest->by_phase[index].bytes) {
        highest = &each;
      }
    }
    if (highest == nullptr) continue;
    table.add(
        {name(phase), format_bytes(highest->by_phase[index].bytes),
         "in iteration " + group_digits(static_cast<size_t>(highest - analysis.peaks.data()) + 1)});
  }
  return table;
}

const char* criterion_of(GroupBy by) {
  switch (by) {
    case GroupBy::kCategory: return "category, with the rule that assigned it";
    case GroupBy::kPhase: return "the phase that allocated it";
    case GroupBy::kIteration: return "the iteration that allocated it";
    case GroupBy::kAnnotation: return "annotation";
    case GroupBy::kContext: break;
  }
  return "compile context";
}

// Returns one group per rule, named "category: rule".
std::vector<AllocationGroup> groups_by_rule(const DeviceRecording& run) {
  const Categories& categories = training_of(run).categories;
  std::map<CategoryRule, AllocationGroup> by_rule;
  for (const uint32_t id : allocations_at_peak(run)) {
    AllocationGroup& group = by_rule[categories.rules[id]];
    group.bytes += run.allocations().all[id].bytes;
    ++group.count;
  }
  std::vector<AllocationGroup> groups;
  for (auto& [rule, group] : by_rule) {
    group.name = fmt::format("{}: {}", name(category_of(rule)), describe(rule));
    groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return groups;
}

// Names the main reason for memory without a category, if it is known and that memory is more than
// 5 % of all; otherwise returns an empty string.
std::string unknown_as_text(const DeviceRecording& run, size_t total_bytes) {
  constexpr size_t kNotableDivisor = 20;
  const Categories& categories = training_of(run).categories;
  std::map<CategoryRule, size_t> bytes_by_rule;
  size_t unknown_bytes = 0;
  for (const uint32_t id : allocations_at_peak(run)) {
    if (categories.of(id) != Category::kUnknown) continue;
    bytes_by_rule[categories.rules[id]] += run.allocations().all[id].bytes;
    unknown_bytes += run.allocations().all[id].bytes;
  }
  if (unknown_bytes <= total_bytes / kNotableDivisor) return {};
  const auto main =
      std::max_element(bytes_by_rule.begin(), bytes_by_rule.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (main->first == CategoryRule::kNoRule) return {};
  const std::string share = main->second < unknown_bytes ? format_bytes(main->second) : "all";
  return fmt::format("  Unknown: {} ({}).\n", describe(main->first), share);
}

}  // namespace

std::string categories_as_text(const DeviceRecording& run) {
  const Categories& categories = training_of(run).categories;
  const CategoryBytes at_peak =
      bytes_by_category(run.allocations(), categories, run.timeline().reserved_peak.entry);
  const size_t total = run.timeline().at(run.timeline().reserved_peak.entry).requested_bytes();
  std::vector<size_t> order;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (categories.peak_bytes[i] > 0) order.push_back(i);
  }
  const bool is_known = std::any_of(order.begin(), order.end(), [](size_t i) {
    return static_cast<Category>(i) != Category::kUnknown;
  });
  if (!is_known) {
    return bold("Categories") + "\n  Unknown: no stack or annotation tells what memory is for.\n";
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return at_peak[a] > at_peak[b]; });
  std::vector<Column> columns = {{"category"},
                                 {run.has_history() ? "at the peak" : "bytes", Align::kRight},
                                 {"", Align::kRight}};
  if (run.has_history()) columns.push_back({"at most", Align::kRight});
  Table table(columns);
  for (const size_t i : order) {
    std::vector<std::string> cells = {name(static_cast<Category>(i)), format_bytes(at_peak[i]),
                                      format_percent(at_peak[i], total)};
    if (run.has_history()) cells.push_back(format_bytes(categories.peak_bytes[i]));
    table.add(std::move(cells));
  }
  return bold("Categories") + "\n" + table.to_text() + unknown_as_text(run, total);
}

std::string iterations_as_text(const DeviceRecording& run) {
  const TrainingAnalysis& analysis = training_of(run);
  const Iterations& iterations = analysis.iterations;
  const std::optional<HighestIteration> highest = find_highest_iteration(run);
  if (!highest) {
    return fmt::format("{}\n  None found: {}.\n", bold("Iterations"), iterations.problem);
  }
  const bool is_incomplete = iterations.complete_count() == 0 && iterations.all.size() == 1;
  const std::string heading = fmt::format(
      "Iterations: {}, found from {}",
      is_incomplete ? "1 incomplete" : group_digits(iterations.complete_count()) + " complete",
      describe(iterations.source));
  return fmt::format("{}\n{}{}", bold(heading), highest_as_text(run, *highest),
                     phase_table(analysis).to_text());
}

std::string groups_by_as_text(const DeviceRecording& run, GroupBy by, size_t top) {
  const std::vector<AllocationGroup> groups =
      by == GroupBy::kCategory ? groups_by_rule(run)
                               : group_allocations(run, allocations_at_peak(run), by);
  return groups_as_text(run, criterion_of(by), groups, top);
}

std::string groups_as_text(const DeviceRecording& run, const std::string& criterion,
                           const std::vector<AllocationGroup>& groups, size_t top) {
  const std::string heading =
      fmt::format("Memory at the {} by {}", run.has_history() ? "peak" : "snapshot", criterion);
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}});
  for (size_t i = 0; i < std::min(groups.size(), top); ++i) {
    table.add({format_bytes(groups[i].bytes), fmt::format("{} x", group_digits(groups[i].count)),
               printable(groups[i].name)});
  }
  std::string text = bold(heading) + "\n" + table.to_text();
  if (groups.size() > top) {
    text += fmt::format("  and {} more (see --top)\n", group_digits(groups.size() - top));
  }
  return text;
}

}  // namespace ashlar
