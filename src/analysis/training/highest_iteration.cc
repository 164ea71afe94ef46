// SPDX-License-Identifier: Apache-2.0
//
// Sums the allocations at both peaks by category and by stack, and compares the sums.
#include "analysis/training/highest_iteration.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "analysis/training/training_analysis.h"

namespace ashlar {
namespace {

using Totals = std::map<uint32_t, size_t>;  // bytes by category or by stack

struct LargestGrowth {
  uint32_t key = 0;
  size_t bytes = 0;  // 0: nothing grew
};

LargestGrowth largest_growth(const Totals& from, const Totals& to) {
  LargestGrowth largest;
  for (const auto& [key, bytes] : to) {
    const auto place = from.find(key);
    const size_t before = place == from.end() ? 0 : place->second;
    if (bytes > before && bytes - before > largest.bytes) largest = {key, bytes - before};
  }
  return largest;
}

}  // namespace

std::optional<HighestIteration> find_highest_iteration(const DeviceRecording& recording) {
  const TrainingAnalysis& analysis = training_of(recording);
  if (analysis.peaks.empty()) return std::nullopt;
  std::vector<uint32_t> order(analysis.peaks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return analysis.peaks[a].whole.bytes < analysis.peaks[b].whole.bytes;
  });
  const size_t highest_bytes = analysis.peaks[order.back()].whole.bytes;
  // Among equal peaks, the first iteration; the sort is stable.
  const auto highest = std::find_if(order.begin(), order.end(), [&](uint32_t each) {
    return analysis.peaks[each].whole.bytes == highest_bytes;
  });

  HighestIteration found;
  found.iteration = *highest;
  found.median_iteration = order[(order.size() - 1) / 2];
  const Peak& peak = analysis.peaks[found.iteration].whole;
  const Peak& median = analysis.peaks[found.median_iteration].whole;
  found.difference_bytes = peak.bytes - median.bytes;
  if (!peak.entry || !median.entry) return found;
  found.phase = analysis.iterations.phases[analysis.iterations.phase_index_at(*peak.entry)].phase;

  const Allocations& allocations = recording.allocations();
  const std::vector<uint32_t>& stack_numbers = recording.recording().stack_numbers();
  Totals categories[2];
  Totals stacks[2];
  const Peak* peaks[2] = {&median, &peak};
  for (size_t i = 0; i < 2; ++i) {
    for (const uint32_t id : present_at(allocations, peaks[i]->entry)) {
      const Allocation& each = allocations.all[id];
      categories[i][static_cast<uint32_t>(analysis.categories.of(id))] += each.bytes;
      stacks[i][stack_number(stack_numbers, each)] += each.bytes;
    }
  }
  const LargestGrowth category = largest_growth(categories[0], categories[1]);
  if (category.bytes > 0) found.category = static_cast<Category>(category.key);
  found.category_difference_bytes = category.bytes;
  const LargestGrowth stack = largest_growth(stacks[0], stacks[1]);
  if (stack.bytes > 0) found.stack = stack.key;
  found.stack_difference_bytes = stack.bytes;
  return found;
}

}  // namespace ashlar
