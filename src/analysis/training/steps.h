// SPDX-License-Identifier: Apache-2.0
//
// Finds the optimizer steps of a trace, and the line of the training loop that begins an iteration.
// Not thread safe: LoopTop caches positions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/training/iterations.h"
#include "analysis/training/training_trace.h"

namespace ashlar {

// An optimizer step or, if none is visible, a zero_grad() or a backward pass. Consecutive steps
// after the same backward pass are joined.
struct Step {
  EntryRange entries{};
  std::string names{};                // of its annotations, concatenated
  const CallRun* backward = nullptr;  // the last backward pass before the end; null: none
};

struct Steps {
  IterationSource source = IterationSource::kNone;
  std::vector<Step> all{};
};

// Returns the steps in order. Their backward passes point into `trace.runs`.
Steps find_steps(const TrainingTrace& trace);

// Returns how many steps belong to one iteration: more than one if several models are trained in
// turn. Steps differ if their annotations or the call paths of their backward() differ.
size_t steps_per_iteration(const TrainingTrace& trace, const std::vector<Step>& steps);

// The position of a stack in the training loop: where its call path diverges from that of
// backward().
struct LoopPosition {
  size_t depth = 0;         // the first frame in which the two paths differ
  int64_t line = 0;         // in that frame
  bool is_in_loop = false;  // both paths are in the same function at `depth`
};

// Returns the stack of the call of backward() before a step, or the last stack before the pass;
// StackId() if the step has no backward pass.
StackId backward_call_of(const TrainingTrace& trace, const Step& step);

// The top of the training loop, as seen from the backward pass of one step.
class LoopTop {
 public:
  // `call` is the result of backward_call_of() for the step.
  LoopTop(const TrainingTrace& trace, StackId call);

  // Returns the first of these entries whose stack is at an earlier line of the loop than the call
  // of backward(), which means that the next iteration has begun; Allocation::kNoEntry if there is
  // none.
  uint32_t find(EntryRange entries);
  // Returns the first of these entries that is at the same line of the loop as entry `top`, which
  // find() returned, or at a later line; Allocation::kNoEntry if there is none.
  uint32_t find_at_or_after(EntryRange entries, uint32_t top);

 private:
  int64_t line_at(size_t depth) const { return trace_.snapshot.tables.frames[path_[depth]].line; }
  std::optional<LoopPosition> position_of(uint32_t entry);
  std::optional<LoopPosition> compare(const std::vector<uint32_t>& path) const;

  const TrainingTrace& trace_;
  std::vector<uint32_t> path_;  // to the call of backward(), outermost first
  std::map<StackId, std::optional<LoopPosition>> positions_;
};

}  // namespace ashlar
