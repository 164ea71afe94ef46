// SPDX-License-Identifier: Apache-2.0
//
// Steps come from annotations or, without them, from runs. The begin of an iteration is recognized
// by line numbers: the first lower line in the function that contains the loop.
#include "analysis/training/steps.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ashlar {
namespace {

class StepFinder {
 public:
  explicit StepFinder(const TrainingTrace& trace) : trace_(trace) {
    for (const CallRun& run : trace.runs) {
      if (run.kind == RunKind::kBackward) backward_.push_back(&run);
    }
  }

  Steps find() const {
    std::vector<Step> annotated;
    for (const AnnotatedRange& range : trace_.ranges) {
      if (is_optimizer_step(range)) add(annotated, range.entries, range.name);
    }
    if (!annotated.empty()) return {IterationSource::kOptimizerAnnotations, std::move(annotated)};

    const std::vector<Step> stacks = steps_of(RunKind::kOptimizer);
    const std::vector<Step> zeroed = steps_of(RunKind::kZeroGrad);
    const std::vector<Step> passes = steps_of(RunKind::kBackward);
    // Some optimizers allocate only in their first step, so later steps leave no trace.
    if (stacks.size() > 1 || (!stacks.empty() && passes.size() < 3)) {
      return {IterationSource::kOptimizerStacks, stacks};
    }
    if (passes.empty()) return {};
    return {IterationSource::kBackwardPasses, zeroed.size() > 1 ? zeroed : passes};
  }

 private:
  std::vector<Step> steps_of(RunKind kind) const {
    std::vector<Step> steps;
    for (const CallRun& run : trace_.runs) {
      if (run.kind == kind) add(steps, run.entries, {});
    }
    return steps;
  }

  void add(std::vector<Step>& steps, EntryRange entries, const std::string& name) const {
    const auto after =
        std::partition_point(backward_.begin(), backward_.end(),
                             [&](const CallRun* run) { return run->entries.first < entries.end; });
    const CallRun* backward = after == backward_.begin() ? nullptr : *std::prev(after);
    if (!steps.empty() && backward != nullptr && steps.back().backward == backward) {
      steps.back().entries.end = std::max(steps.back().entries.end, entries.end);
      steps.back().names += name;
    } else {
      steps.push_back({entries, name, backward});
    }
  }

  const TrainingTrace& trace_;
  std::vector<const CallRun*> backward_;
};

// Numbers the call paths of stacks. Two stacks have the same number if their paths are equal.
class CallPathNumbers {
 public:
  explicit CallPathNumbers(const StackTraitsTable& traits) : traits_(traits) {}

  uint32_t of(StackId stack) {
    const auto [known, is_new] = by_stack_.try_emplace(stack, 0);
    if (is_new) {
      const auto number = static_cast<uint32_t>(by_path_.size());
      known->second = by_path_.try_emplace(traits_.call_path(stack), number).first->second;
    }
    return known->second;
  }

 private:
  const StackTraitsTable& traits_;
  std::map<StackId, uint32_t> by_stack_;
  std::map<std::vector<uint32_t>, uint32_t> by_path_;
};

}  // namespace

Steps find_steps(const TrainingTrace& trace) { return StepFinder(trace).find(); }

size_t steps_per_iteration(const TrainingTrace& trace, const std::vector<Step>& steps) {
  CallPathNumbers paths(trace.traits);
  std::map<std::pair<std::string_view, uint32_t>, uint32_t> numbers;
  std::vector<uint32_t> labels;
  for (const Step& step : steps) {
    const StackId call = step.backward == nullptr ? StackId() : step.backward->backward_call;
    const auto number = static_cast<uint32_t>(numbers.size());
    labels.push_back(numbers.try_emplace({step.names, paths.of(call)}, number).first->second);
  }
  constexpr size_t kMaxPeriod = 64;
  for (size_t period = 1; period < std::min(labels.size(), kMaxPeriod); ++period) {
    const size_t compared = labels.size() - period;
    size_t equal = 0;
    for (size_t i = 0; i < compared; ++i) equal += labels[i] == labels[i + period] ? 1 : 0;
    const bool is_seen_twice = labels.size() >= 2 * period;
    // A few steps may differ: the first one, or those with other work.
    const bool is_nearly_equal =
        equal * 10 >= compared * 9 || (compared >= 4 && compared - equal <= 1);
    if (is_seen_twice ? is_nearly_equal : equal == compared) return period;
  }
  const bool all_differ = numbers.size() == labels.size();
  return all_differ ? std::max<size_t>(labels.size(), 1) : 1;
}

StackId backward_call_of(const TrainingTrace& trace, const Step& step) {
  if (step.backward == nullptr) return {};
  StackId call = step.backward->backward_call;
  // backward() with a given gradient allocates nothing: use the last stack before the pass.
  for (uint32_t i = step.backward->entries.first; call == StackId() && i-- > 0;) {
    call = trace.entries[i].stack;
  }
  return call;
}

LoopTop::LoopTop(const TrainingTrace& trace, StackId call)
    : trace_(trace), path_(trace.traits.call_path(call)) {}

uint32_t LoopTop::find(EntryRange entries) {
  for (uint32_t i = entries.first; i < entries.end && !path_.empty(); ++i) {
    const std::optional<LoopPosition> position = position_of(i);
    if (position && position->is_in_loop && position->line < line_at(position->depth)) return i;
  }
  return Allocation::kNoEntry;
}

uint32_t LoopTop::find_at_or_after(EntryRange entries, uint32_t top) {
  const std::optional<LoopPosition> wanted = position_of(top);
  for (uint32_t i = entries.first; i < entries.end && wanted; ++i) {
    const std::optional<LoopPosition> position = position_of(i);
    if (!position || !position->is_in_loop || position->depth < wanted->depth) continue;
    if (position->depth > wanted->depth || position->line >= wanted->line) return i;
  }
  return Allocation::kNoEntry;
}

std::optional<LoopPosition> LoopTop::position_of(uint32_t entry) {
  const TraceEntry& traced = trace_.entries[entry];
  if (traced.action != TraceAction::kAlloc && traced.action != TraceAction::kFreeRequested) {
    return std::nullopt;
  }
  const auto [place, is_new] = positions_.try_emplace(traced.stack);
  if (is_new) place->second = compare(trace_.traits.call_path(traced.stack));
  return place->second;
}

std::optional<LoopPosition> LoopTop::compare(const std::vector<uint32_t>& path) const {
  const std::vector<Frame>& frames = trace_.snapshot.tables.frames;
  for (size_t i = 0; i < std::min(path.size(), path_.size()); ++i) {
    const Frame& here = frames[path[i]];
    const Frame& there = frames[path_[i]];
    const bool is_same_function = here.name == there.name && here.filename == there.filename;
    if (is_same_function && here.line == there.line) continue;
    return LoopPosition{i, here.line, is_same_function};
  }
  return std::nullopt;
}

}  // namespace ashlar
