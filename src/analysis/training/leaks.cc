// SPDX-License-Identifier: Apache-2.0
//
// Counts, for each group, the allocations that are live after each iteration, and those of them
// that earlier iterations made.
#include "analysis/training/leaks.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace ashlar {
namespace {

constexpr size_t kLeakPollPeriod = 4096;  // allocations between polls of keep_going

// The allocations that are live after each iteration.
struct LiveAfter {
  std::vector<size_t> bytes{};
  std::vector<size_t> counts{};
};

// One allocation, in terms of iterations: it is live after the iterations [begin, end).
struct IterationSpan {
  size_t begin = 0;
  size_t end = 0;
  size_t bytes = 0;
};

class IterationEnds {
 public:
  explicit IterationEnds(const Iterations& iterations) {
    for (const Iteration& each : iterations.all) {
      if (!each.is_complete) continue;
      if (ends_.empty()) first_entry_ = each.entries.first;
      ends_.push_back(each.entries.end);
    }
  }

  size_t count() const { return ends_.size(); }
  // Whether the allocation was made in the compared iterations or between them.
  bool contains(const Allocation& each) const {
    return !each.predates_trace() && each.alloc_entry >= first_entry_ &&
           each.alloc_entry < ends_.back();
  }
  IterationSpan span_of(const Allocation& each) const {
    return {iterations_before(each.alloc_entry), iterations_before(each.free_entry), each.bytes};
  }

 private:
  // Returns the number of iterations that end at or before an entry.
  size_t iterations_before(uint32_t entry) const {
    return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), entry) - ends_.begin());
  }

  std::vector<uint32_t> ends_;
  uint32_t first_entry_ = 0;
};

LiveAfter live_after(const std::vector<IterationSpan>& spans, size_t iteration_count) {
  LiveAfter live = {std::vector<size_t>(iteration_count), std::vector<size_t>(iteration_count)};
  // First the differences between iterations, modulo 2^64, then their running sums.
  for (const IterationSpan& each : spans) {
    if (each.begin >= each.end) continue;
    live.bytes[each.begin] += each.bytes;
    ++live.counts[each.begin];
    if (each.end >= iteration_count) continue;
    live.bytes[each.end] -= each.bytes;
    --live.counts[each.end];
  }
  for (size_t i = 1; i < iteration_count; ++i) {
    live.bytes[i] += live.bytes[i - 1];
    live.counts[i] += live.counts[i - 1];
  }
  return live;
}

// Returns the minimum number of rises that count as a leak. Lazy initialization may cause a few in
// a long run.
size_t min_rise_count(size_t iteration_count) { return std::max<size_t>(2, iteration_count / 16); }

// Whether iterations keep allocations: the number of allocations that survive the next iteration
// keeps reaching new highs, until the end of the run.
bool accumulates(const std::vector<IterationSpan>& spans, size_t iteration_count) {
  std::vector<IterationSpan> crossing;  // live after the iteration that follows their own
  for (IterationSpan each : spans) {
    if (++each.begin < std::min(each.end, iteration_count)) crossing.push_back(each);
  }
  if (crossing.empty()) return false;
  const LiveAfter live = live_after(crossing, iteration_count);
  size_t highest = 0;
  size_t rise_count = 0;
  size_t last_rise = 0;
  size_t longest_gap = 0;
  for (size_t i = 1; i < iteration_count; ++i) {
    if (live.counts[i] <= highest) continue;
    highest = live.counts[i];
    ++rise_count;
    longest_gap = std::max(longest_gap, i - last_rise);
    last_rise = i;
  }
  const size_t since_last_rise = iteration_count - 1 - last_rise;
  // The gap distinguishes a leak from a buffer of fixed capacity, whose count stops rising.
  return rise_count >= min_rise_count(iteration_count) && since_last_rise < longest_gap &&
         live.counts.back() == highest && live.bytes.back() > live.bytes[iteration_count / 2 - 1];
}

// Whether each iteration replaces the allocations that it keeps with larger ones, as when a tensor
// is extended by concatenation.
bool is_replaced_by_larger(const LiveAfter& live) {
  constexpr size_t kMinRises = 3;
  if (live.bytes.size() <= kMinRises || live.bytes[0] == 0) return false;
  for (size_t i = 1; i < live.bytes.size(); ++i) {
    if (live.bytes[i] <= live.bytes[i - 1] || live.counts[i] != live.counts[0]) return false;
  }
  // At least doubled: inputs that vary in size also stay live until they are replaced.
  return live.bytes.back() >= 2 * live.bytes.front();
}

// Sets the growth in total and per iteration. Growth in the first iteration counts as setup if it
// exceeds the largest growth in a later iteration.
void measure_growth(const LiveAfter& live, Leak& leak) {
  const std::vector<size_t>& bytes = live.bytes;
  size_t largest_rise = 0;
  for (size_t i = 1; i < bytes.size(); ++i) {
    if (bytes[i] > bytes[i - 1]) largest_rise = std::max(largest_rise, bytes[i] - bytes[i - 1]);
  }
  const bool has_setup = bytes[0] > largest_rise;
  const size_t before = has_setup ? bytes[0] : 0;
  const size_t iterations = has_setup ? bytes.size() - 1 : bytes.size();
  leak.growth_bytes = bytes.back() - std::min(before, bytes.back());
  leak.bytes_per_iteration =
      static_cast<double>(leak.growth_bytes) / static_cast<double>(iterations);
}

bool has_any_stack(const Allocations& allocations, const std::vector<uint32_t>& stack_numbers) {
  return std::any_of(allocations.all.begin(), allocations.all.end(), [&](const Allocation& each) {
    return stack_number(stack_numbers, each.stack) != StackIndex::kNoStack;
  });
}

std::string problem_of(const Iterations& iterations, size_t count) {
  if (count >= LeakReport::kMinIterations) return {};
  if (count == 0 && !iterations.problem.empty()) return iterations.problem;
  return text("at least ", LeakReport::kMinIterations,
              " complete iterations are needed, and the recording has ", count);
}

}  // namespace

LeakReport find_leaks(const Allocations& allocations, const Iterations& iterations,
                      const std::vector<uint32_t>& stack_numbers, const LeakOptions& options) {
  const IterationEnds ends(iterations);
  LeakReport report;
  report.iteration_count = ends.count();
  report.problem = problem_of(iterations, ends.count());
  report.has_stacks = has_any_stack(allocations, stack_numbers);
  if (!report.has_enough_iterations()) return report;

  std::map<LeakGroup, std::vector<IterationSpan>> groups;
  for (size_t i = 0; i < allocations.all.size(); ++i) {
    if (i % kLeakPollPeriod == 0 && options.keep_going && !options.keep_going()) return report;
    const Allocation& each = allocations.all[i];
    if (!ends.contains(each)) continue;
    LeakGroup group;
    if (report.has_stacks) {
      group.stack = stack_number(stack_numbers, each);
    } else {
      group.size_class = size_class_of(each.bytes);
      group.stream = each.stream;
    }
    // The group counts even if this allocation is freed in the iteration that made it.
    std::vector<IterationSpan>& spans = groups[group];
    const IterationSpan span = ends.span_of(each);
    if (span.begin < span.end) spans.push_back(span);
  }

  report.group_count = groups.size();
  for (const auto& [group, spans] : groups) {
    // A group with fewer allocations than rises cannot leak. Skipping it also bounds the time:
    // live_after() takes one step per iteration.
    if (spans.size() < min_rise_count(ends.count())) continue;
    if (options.keep_going && !options.keep_going()) return report;
    const LiveAfter live = live_after(spans, ends.count());
    if (!accumulates(spans, ends.count()) && !is_replaced_by_larger(live)) continue;
    Leak leak = {.group = group,
                 .live_bytes = live.bytes.back(),
                 .live_count = live.counts.back(),
                 .live_after = live.bytes};
    measure_growth(live, leak);
    report.leaks.push_back(std::move(leak));
  }
  std::stable_sort(report.leaks.begin(), report.leaks.end(),
                   [](const Leak& a, const Leak& b) { return a.growth_bytes > b.growth_bytes; });
  return report;
}

}  // namespace ashlar
