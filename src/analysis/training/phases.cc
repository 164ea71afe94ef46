// SPDX-License-Identifier: Apache-2.0
//
// Infers phases from the order of runs: the run before a backward pass contains its forward pass.
#include "analysis/training/phases.h"

#include <algorithm>
#include <utility>

namespace ashlar {
namespace {

class PhaseFinder {
 public:
  explicit PhaseFinder(const TrainingTrace& trace) : trace_(trace), runs_(trace.runs) {}

  std::vector<PhaseSpan> find() {
    for (size_t i = 0; i < runs_.size(); ++i) {
      switch (runs_[i].kind) {
        case RunKind::kBackward: add(runs_[i].entries, Phase::kBackward); break;
        case RunKind::kOptimizer:
        case RunKind::kZeroGrad: add(runs_[i].entries, Phase::kOptimizer); break;
        case RunKind::kOther: add_other_run(i); break;
      }
    }
    return std::move(spans_);
  }

 private:
  void add(EntryRange entries, Phase phase) {
    if (!entries.is_empty()) spans_.push_back({entries, phase});
  }

  // Return the nearest run after and before a run, ignoring zero_grad(); null if there is none.
  const CallRun* next_of(size_t run) const {
    while (++run < runs_.size()) {
      if (runs_[run].kind != RunKind::kZeroGrad) return &runs_[run];
    }
    return nullptr;
  }
  const CallRun* previous_of(size_t run) const {
    while (run-- > 0) {
      if (runs_[run].kind != RunKind::kZeroGrad) return &runs_[run];
    }
    return nullptr;
  }

  void add_other_run(size_t run) {
    const CallRun* next = next_of(run);
    const CallRun* previous = previous_of(run);
    const EntryRange entries = runs_[run].entries;
    if (next != nullptr && next->kind == RunKind::kBackward) {
      add_forward_run(run, *next);
    } else if (next != nullptr && next->kind == RunKind::kOptimizer && previous != nullptr &&
               previous->kind == RunKind::kBackward) {
      add(entries, Phase::kOptimizer);  // gradient clipping, unscaling
    } else {
      add_other_run(entries);
    }
  }

  // Adds a run that no backward pass follows: setup up to the first module call of the trace, then
  // evaluation or, at the end of the trace, an unfinished forward pass.
  void add_other_run(EntryRange entries) {
    const uint32_t call = first_module_call(entries);
    if (call == entries.end) {
      add(entries, Phase::kOther);
      return;
    }
    const Phase phase = is_unfinished_forward(entries) ? Phase::kForward : Phase::kEvaluation;
    if (!has_seen_forward_) add({entries.first, call}, Phase::kOther);
    add({has_seen_forward_ ? entries.first : call, entries.end}, phase);
    has_seen_forward_ = true;
  }

  // Whether the trace ends within a forward pass: more than a quarter of the modules' allocations
  // are still live, because the backward pass would need them. In recorded training programs,
  // about half are.
  bool is_unfinished_forward(EntryRange entries) const {
    if (entries.end != trace_.size()) return false;
    size_t count = 0;
    size_t live_count = 0;
    for (uint32_t i = entries.first; i < entries.end; ++i) {
      const Allocation* begun = trace_.begun_at(i);
      if (begun == nullptr || !trace_.traits.of(begun->stack).in_module_call) continue;
      ++count;
      live_count += begun->free_entry == Allocation::kNoEntry ? 1 : 0;
    }
    return live_count * 4 > count;
  }

  // Splits a run before a backward pass where its forward pass starts. The part before it is an
  // evaluation, setup or, in later iterations, also the forward pass.
  void add_forward_run(size_t run, const CallRun& backward) {
    const EntryRange entries = runs_[run].entries;
    const uint32_t start = forward_start(run, backward);
    const EntryRange before = {entries.first, start};
    if (first_module_call(before) != before.end) {
      add_other_run(before);
    } else if (!has_seen_forward_) {
      add(before, Phase::kOther);
    } else {
      add(entries, Phase::kForward);
      return;
    }
    has_seen_forward_ = true;
    add({start, entries.end}, Phase::kForward);
  }

  // Returns the first entry of a run that allocates what the next backward pass or the code
  // directly after it frees: an input, an activation or a loss.
  uint32_t forward_start(size_t run, const CallRun& backward) const {
    // Programs often free an input or a loss only when they assign the next one. Models that are
    // trained in turn have another model's backward pass in between, so the search covers the
    // entries before the third backward pass.
    uint32_t horizon = trace_.size();
    size_t passes = 0;
    for (size_t i = run + 1; i < runs_.size() && passes < 3; ++i) {
      if (runs_[i].kind == RunKind::kBackward && ++passes == 3) horizon = runs_[i].entries.first;
    }
    const EntryRange entries = runs_[run].entries;
    for (uint32_t i = entries.first; i < entries.end; ++i) {
      const Allocation* begun = trace_.begun_at(i);
      if (begun == nullptr || begun->free_entry == Allocation::kNoEntry) continue;
      if (begun->free_entry >= backward.entries.first && begun->free_entry < horizon) return i;
    }
    return entries.first;
  }

  // Returns the first allocation in a module's forward pass; the end if there is none.
  uint32_t first_module_call(EntryRange entries) const {
    for (uint32_t i = entries.first; i < entries.end; ++i) {
      const TraceEntry& entry = trace_.entries[i];
      if (entry.action == TraceAction::kAlloc && trace_.traits.of(entry.stack).in_module_call) {
        return i;
      }
    }
    return entries.end;
  }

  const TrainingTrace& trace_;
  const std::vector<CallRun>& runs_;
  std::vector<PhaseSpan> spans_;
  bool has_seen_forward_ = false;
};

}  // namespace

std::vector<PhaseSpan> find_phases(const TrainingTrace& trace) { return PhaseFinder(trace).find(); }

}  // namespace ashlar
