// SPDX-License-Identifier: Apache-2.0
//
// Unless iterations are annotated, each ends where the program returns to the top of its training
// loop after the last optimizer step. Without steps, a data loader or repetition shows them.
//
// The file is long because one class tries all sources of iterations in turn.
#include "analysis/training/iterations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analysis/training/call_runs.h"
#include "analysis/training/phases.h"
#include "analysis/training/repetition.h"
#include "analysis/training/steps.h"
#include "analysis/training/training_trace.h"

namespace ashlar {
namespace {

class IterationFinder {
 public:
  IterationFinder(const TrainingTrace& trace, const std::vector<PhaseSpan>& phases)
      : trace_(trace), phases_(phases) {}

  void find(Iterations& found) {
    const Steps steps = find_steps(trace_);
    const size_t period = steps_per_iteration(trace_, steps.all);
    if (find_user_ranges(steps.all, period)) {
      found.source = IterationSource::kUserRanges;
    } else if (!steps.all.empty()) {
      found.source = steps.source;
      cut_after_steps(steps.all, period);
    } else if (find_batches()) {
      found.source = IterationSource::kDataLoader;
    } else if (find_loop()) {
      found.source = IterationSource::kRepetition;
    } else {
      found.problem = trace_.entries.empty()
                          ? "the recording has no history"
                          : "no optimizer step, backward pass or repeated sequence was found";
    }
    mark_failed();
    found.all = std::move(iterations_);
  }

 private:
  // Derives iterations from optimizer steps; each has `period` of them.
  void cut_after_steps(const std::vector<Step>& steps, size_t period) {
    const uint32_t size = trace_.size();
    std::vector<uint32_t> tops;        // begins of the second and later iterations
    std::map<StackId, LoopTop> loops;  // by the stack of the call of backward()
    const auto loop_of = [&](const Step& step) -> LoopTop& {
      const StackId call = backward_call_of(trace_, step);
      return loops.try_emplace(call, trace_, call).first->second;
    };
    for (size_t i = period - 1; i < steps.size(); i += period) {
      const uint32_t limit = i + 1 < steps.size() && steps[i + 1].backward != nullptr
                                 ? steps[i + 1].backward->entries.first
                                 : size;
      const uint32_t after = end_of_step(steps[i]);
      LoopTop& loop = loop_of(steps[i]);
      uint32_t top = loop.find({after, limit});
      if (tops.empty()) begin_first(steps, loop, top);
      const bool is_last = i + 1 >= steps.size();
      if (top == Allocation::kNoEntry) top = is_last ? size : std::max(after, steps[i].entries.end);
      tops.push_back(top);
    }
    if (tops.empty()) begin_first(steps, loop_of(steps[0]), Allocation::kNoEntry);
    uint32_t begin = first_begin_;
    for (const uint32_t top : tops) {
      iterations_.push_back({.entries = {begin, std::max(begin, top)}});
      begin = std::max(begin, top);
    }
    if (!iterations_.empty()) iterations_.front().is_complete = is_first_complete_;
    if (has_allocation({begin, size})) {
      iterations_.push_back({.entries = {begin, size}, .is_complete = false});
    }
  }

  // Returns the end of a step, including the zero_grad() that directly follows it.
  uint32_t end_of_step(const Step& step) const {
    const auto run = std::partition_point(
        trace_.runs.begin(), trace_.runs.end(),
        [&](const CallRun& each) { return each.entries.end <= step.entries.end; });
    if (run != trace_.runs.end() && run->kind == RunKind::kZeroGrad) return run->entries.end;
    return step.entries.end;
  }

  void begin_first(const std::vector<Step>& steps, LoopTop& loop, uint32_t second_top) {
    const CallRun* backward = steps[0].backward;
    const uint32_t limit = backward == nullptr ? steps[0].entries.end : backward->entries.first;
    uint32_t begin = Allocation::kNoEntry;
    if (second_top != Allocation::kNoEntry) begin = loop.find_at_or_after({0, limit}, second_top);
    is_first_complete_ = begin != Allocation::kNoEntry || trace_.allocations.preexisting_count == 0;
    if (begin == Allocation::kNoEntry) begin = first_forward(limit);
    first_begin_ = begin;
  }

  // Returns the first entry of the first forward pass; 0 if the trace begins within an iteration.
  uint32_t first_forward(uint32_t limit) const {
    for (const PhaseSpan& span : phases_) {
      if (span.entries.first >= limit) break;
      if (span.phase == Phase::kForward) return span.entries.first;
      if (span.phase == Phase::kBackward || span.phase == Phase::kOptimizer) break;
    }
    return 0;
  }

  bool has_allocation(EntryRange entries) const {
    for (uint32_t i = entries.first; i < entries.end; ++i) {
      if (trace_.entries[i].action == TraceAction::kAlloc) return true;
    }
    return false;
  }

  // Derives iterations from ranges that the user annotated, such as "step 7" or "ProfilerStep#7".
  bool find_user_ranges(const std::vector<Step>& steps, size_t period) {
    // Each family is compared with all steps, so their number is bounded.
    constexpr size_t kMaxFamilies = 256;
    std::map<std::string, std::vector<EntryRange>> families;
    const auto add = [&](const std::string& name, EntryRange entries) {
      if (families.size() < kMaxFamilies) families.try_emplace(name);
      if (const auto family = families.find(name); family != families.end()) {
        family->second.push_back(entries);
      }
    };
    std::set<std::string> names;
    std::set<std::string> repeated_families;
    for (const AnnotatedRange& range : trace_.ranges) {
      if (is_from_pytorch(range.name)) continue;
      add(without_digits(range.name), range.entries);
      if (!names.insert(range.name).second) repeated_families.insert(without_digits(range.name));
    }
    for (const auto& [name, entries] : metadata_ranges()) {
      add("metadata " + name, entries);
    }
    const std::vector<EntryRange>* best = nullptr;
    uint64_t best_size = 0;
    for (const auto& [name, ranges] : families) {
      // Without steps to confirm them, names must be unique: "forward" may be part of an iteration.
      if (steps.empty() && repeated_families.contains(name)) continue;
      if (!are_iterations(ranges, steps, period)) continue;
      uint64_t size = 0;
      for (const EntryRange& range : ranges) size += range.end - range.first;
      if (size <= best_size) continue;
      best = &ranges;
      best_size = size;
    }
    if (best == nullptr) return false;
    for (const EntryRange& range : *best) {
      const bool is_whole = range.first > 0 || trace_.allocations.preexisting_count == 0;
      iterations_.push_back({.entries = range, .is_complete = is_whole});
    }
    return true;
  }

  // Ranges are iterations if they follow each other and each has the same work: `period` steps with
  // their backward passes or, if there are no steps, a module's forward pass.
  bool are_iterations(const std::vector<EntryRange>& ranges, const std::vector<Step>& steps,
                      size_t period) const {
    if (ranges.size() < 2) return false;
    size_t step = 0;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (i > 0 && ranges[i].first < ranges[i - 1].end) return false;
      if (steps.empty()) {
        if (!has_evaluation(ranges[i])) return false;
        continue;
      }
      size_t count = 0;
      for (; step < steps.size() && steps[step].entries.end <= ranges[i].end; ++step) {
        const CallRun* backward = steps[step].backward;
        const bool is_inside = steps[step].entries.first >= ranges[i].first &&
                               (backward == nullptr || ranges[i].contains(backward->entries.first));
        count += is_inside ? 1 : 0;
      }
      if (count != period && i + 1 < ranges.size()) return false;
    }
    return true;
  }

  bool has_evaluation(EntryRange entries) const {
    auto span = std::partition_point(phases_.begin(), phases_.end(), [&](const PhaseSpan& each) {
      return each.entries.end <= entries.first;
    });
    for (; span != phases_.end() && span->entries.first < entries.end; ++span) {
      if (span->phase == Phase::kEvaluation) return true;
    }
    return false;
  }

  // Whether PyTorch itself annotates ranges with this name.
  static bool is_from_pytorch(const std::string& name) {
    return name.starts_with("Optimizer.") || name.starts_with("enumerate(DataLoader)#") ||
           name.starts_with("Torch-Compiled Region") || name.starts_with("## ");
  }

  static std::string without_digits(const std::string& name) {
    std::string kept;
    for (const char c : name) {
      if (c < '0' || c > '9') kept += c;
    }
    return kept;
  }

  // Returns the ranges of entries with the same user metadata, and its text without digits.
  std::vector<std::pair<std::string, EntryRange>> metadata_ranges() const {
    std::vector<std::pair<std::string, EntryRange>> ranges;
    StringId current{};
    for (uint32_t i = 0; i < trace_.size(); ++i) {
      const StringId id = trace_.entries[i].user_metadata;
      if (id != current && id != StringId() && id.value() < trace_.snapshot.tables.strings.size()) {
        ranges.emplace_back(without_digits(trace_.snapshot.tables.strings[id.value()]),
                            EntryRange{i, i});
      }
      current = id;
      if (id != StringId() && !ranges.empty()) ranges.back().second.end = i + 1;
    }
    return ranges;
  }

  // Derives iterations from the batches of a data loader, which PyTorch annotates.
  bool find_batches() {
    std::vector<uint32_t> begins;
    for (const AnnotatedRange& range : trace_.ranges) {
      if (range.name.starts_with("enumerate(DataLoader)#")) begins.push_back(range.entries.first);
    }
    // The last attempt to get a batch ends the loop.
    if (!begins.empty() && !has_allocation({begins.back(), trace_.size()})) begins.pop_back();
    if (begins.size() < 2) return false;
    cut_at(begins);
    return true;
  }

  // Derives iterations from repeated allocations, for loops without an optimizer or backward pass.
  bool find_loop() {
    // Within an unfinished forward pass or within modules, a repetition may be a loop over layers.
    const bool calls_modules = has_phase(Phase::kEvaluation) || has_phase(Phase::kForward);
    if (has_phase(Phase::kForward)) return false;
    std::vector<uint32_t> begins;
    if (trace_.traits.has_stacks()) begins = find_repetition(calls_outside_modules());
    if (begins.empty() && !calls_modules) begins = find_repetition(all_allocations());
    if (calls_modules && !each_calls_module(begins)) return false;
    cut_at(begins);
    return !begins.empty();
  }

  void cut_at(const std::vector<uint32_t>& begins) {
    for (size_t i = 0; i < begins.size(); ++i) {
      const uint32_t end = i + 1 < begins.size() ? begins[i + 1] : trace_.size();
      iterations_.push_back({.entries = {begins[i], end}});
    }
  }

  bool has_phase(Phase phase) const {
    return std::any_of(phases_.begin(), phases_.end(),
                       [phase](const PhaseSpan& span) { return span.phase == phase; });
  }

  // Whether each iteration but the last calls a module. Otherwise the loop is over something else,
  // such as parameters.
  bool each_calls_module(const std::vector<uint32_t>& begins) const {
    for (size_t i = 0; i + 1 < begins.size(); ++i) {
      bool is_called = false;
      for (uint32_t k = begins[i]; k < begins[i + 1] && !is_called; ++k) {
        is_called = trace_.entries[k].action == TraceAction::kAlloc &&
                    trace_.traits.of(trace_.entries[k].stack).in_module_call;
      }
      if (!is_called) return false;
    }
    return true;
  }

  // Returns one token for each sequence of allocations with the same call path up to the first
  // call of a module. The path inside modules is ignored: a loop over layers is not an iteration.
  std::vector<TokenAt> calls_outside_modules() const {
    std::map<std::vector<uint32_t>, uint64_t> numbers;
    std::map<StackId, uint64_t> tokens_of;
    std::vector<TokenAt> tokens;
    for (uint32_t i = 0; i < trace_.size(); ++i) {
      const TraceEntry& entry = trace_.entries[i];
      if (entry.action != TraceAction::kAlloc) continue;
      const auto [place, is_new] = tokens_of.try_emplace(entry.stack);
      if (is_new) {
        const uint64_t number = numbers.size();
        std::vector<uint32_t> path = trace_.traits.path_to_module(entry.stack);
        place->second = numbers.try_emplace(std::move(path), number).first->second;
      }
      if (tokens.empty() || tokens.back().token != place->second) {
        tokens.push_back({place->second, i});
      }
    }
    return tokens;
  }

  std::vector<TokenAt> all_allocations() const {
    std::vector<TokenAt> tokens;
    for (uint32_t i = 0; i < trace_.size(); ++i) {
      const TraceEntry& entry = trace_.entries[i];
      if (entry.action != TraceAction::kAlloc) continue;
      tokens.push_back({trace_.traits.has_stacks() ? entry.stack.value() : entry.bytes, i});
    }
    return tokens;
  }

  void mark_failed() {
    for (Iteration& each : iterations_) {
      for (uint32_t i = each.entries.first; i < each.entries.end; ++i) {
        if (trace_.entries[i].action == TraceAction::kOom) each.is_complete = false;
      }
    }
  }

  const TrainingTrace& trace_;
  const std::vector<PhaseSpan>& phases_;
  std::vector<Iteration> iterations_;
  uint32_t first_begin_ = 0;
  bool is_first_complete_ = true;
};

// Moves the begin of the first forward pass to the begin of its iteration.
void extend_first_forward(Iterations& found) {
  if (found.all.empty() || found.phases.size() < 2) return;
  const uint32_t begin = found.all[0].entries.first;
  for (size_t i = 0; i + 1 < found.phases.size(); ++i) {
    PhaseSpan& span = found.phases[i];
    PhaseSpan& next = found.phases[i + 1];
    if (span.phase != Phase::kOther || !span.entries.contains(begin)) continue;
    if (next.phase != Phase::kForward && next.phase != Phase::kEvaluation) return;
    span.entries.end = next.entries.first = begin;
    if (span.entries.is_empty()) found.phases.erase(found.phases.begin() + static_cast<long>(i));
    return;
  }
}

}  // namespace

const char* name(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "forward";
    case Phase::kBackward: return "backward";
    case Phase::kOptimizer: return "optimizer";
    case Phase::kEvaluation: return "evaluation";
    case Phase::kOther: break;
  }
  return "other";
}

const char* describe(IterationSource source) {
  switch (source) {
    case IterationSource::kUserRanges: return "annotated ranges";
    case IterationSource::kOptimizerAnnotations: return "annotated optimizer steps";
    case IterationSource::kOptimizerStacks: return "stacks of optimizer steps";
    case IterationSource::kBackwardPasses: return "backward passes";
    case IterationSource::kDataLoader: return "annotated batches of a data loader";
    case IterationSource::kRepetition: return "repeated allocations";
    case IterationSource::kNone: break;
  }
  return "nothing";
}

size_t Iterations::complete_count() const {
  return static_cast<size_t>(std::count_if(all.begin(), all.end(),
                                           [](const Iteration& each) { return each.is_complete; }));
}

uint32_t Iterations::at(uint32_t entry) const {
  const auto after = std::partition_point(
      all.begin(), all.end(), [&](const Iteration& each) { return each.entries.first <= entry; });
  if (after == all.begin() || !std::prev(after)->entries.contains(entry)) return kNoIteration;
  return static_cast<uint32_t>(std::prev(after) - all.begin());
}

uint32_t Iterations::phase_index_at(uint32_t entry) const {
  const auto after = std::partition_point(
      phases.begin(), phases.end(), [&](const auto& span) { return span.entries.first <= entry; });
  return static_cast<uint32_t>(std::prev(after) - phases.begin());
}

Iterations find_iterations(const Snapshot& snapshot, DeviceIndex device,
                           const Allocations& allocations, const StackTraitsTable& traits) {
  const std::vector<TraceEntry>& entries = trace_of(snapshot, device);
  TrainingTrace trace = {snapshot, entries, allocations, traits};
  trace.ranges = annotated_ranges(snapshot, device);
  trace.runs = find_call_runs(entries, traits, trace.ranges);
  Iterations found;
  found.phases = find_phases(trace);
  IterationFinder(trace, found.phases).find(found);
  extend_first_forward(found);
  return found;
}

std::vector<IterationPeaks> peaks_of(const Iterations& iterations, const Timeline& timeline,
                                     const std::vector<TraceEntry>& trace) {
  std::vector<IterationPeaks> peaks(iterations.all.size());
  uint32_t phase = 0;
  for (size_t i = 0; i < peaks.size(); ++i) {
    const EntryRange entries = iterations.all[i].entries;
    for (uint32_t entry = entries.first; entry < entries.end; ++entry) {
      while (iterations.phases[phase].entries.end <= entry) ++phase;
      const size_t bytes = timeline.points[entry].requested_bytes();
      const auto raise = [&](Peak& peak) {
        if (bytes <= peak.bytes && peak.entry) return;
        peak = {bytes, entry, std::nullopt};
        if (trace[entry].has_time) peak.time_us = trace[entry].time_us;
      };
      raise(peaks[i].whole);
      raise(peaks[i].by_phase[static_cast<size_t>(iterations.phases[phase].phase)]);
    }
  }
  return peaks;
}

}  // namespace ashlar
