// SPDX-License-Identifier: Apache-2.0
//
// The iterations of a recorded run and the phases of each: forward, backward, optimizer,
// evaluation. Both are inferred from annotations and call stacks or, without them, from repeated
// allocations. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/timeline.h"
#include "analysis/training/stack_traits.h"
#include "ashlar/snapshot.h"

namespace ashlar {

enum class Phase : uint8_t {
  kOther,       // setup, and entries that no other phase could be inferred for
  kForward,     // a forward pass and the loss, before a backward pass
  kBackward,    // a backward pass, including recomputed forward passes
  kOptimizer,   // from the end of the backward pass to the end of the step; also zero_grad()
  kEvaluation,  // a forward pass without a backward pass
};
inline constexpr size_t kPhaseCount = 5;

// Returns "forward", "backward", "optimizer", "evaluation" or "other".
const char* name(Phase phase);

// The entries [first, end) of a trace.
struct EntryRange {
  uint32_t first = 0;
  uint32_t end = 0;

  bool contains(uint32_t entry) const { return first <= entry && entry < end; }
  bool is_empty() const { return first >= end; }
  friend bool operator==(const EntryRange&, const EntryRange&) = default;
};

struct PhaseSpan {
  EntryRange entries{};
  Phase phase = Phase::kOther;
  friend bool operator==(const PhaseSpan&, const PhaseSpan&) = default;
};

struct Iteration {
  EntryRange entries{};
  // False: the trace begins or ends within the iteration, or an allocation failed in it.
  bool is_complete = true;
  friend bool operator==(const Iteration&, const Iteration&) = default;
};

// The evidence from which iterations were inferred.
enum class IterationSource : uint8_t {
  kNone,
  kUserRanges,            // annotated ranges that contain one iteration each
  kOptimizerAnnotations,  // PyTorch's annotations of Optimizer.step
  kOptimizerStacks,       // stacks of Optimizer.step
  kBackwardPasses,        // backward passes; optimizer steps are not visible
  kDataLoader,            // PyTorch's annotations of batches from a data loader
  kRepetition,            // stacks or sizes that repeat in the same order
};

// Returns a phrase for reports, such as "annotated optimizer steps".
const char* describe(IterationSource source);

struct Iterations {
  static constexpr uint32_t kNoIteration = UINT32_MAX;

  IterationSource source = IterationSource::kNone;
  // If `source` is kNone: why no iterations were found.
  std::string problem{};
  std::vector<PhaseSpan> phases{};  // in order; they cover the whole trace
  std::vector<Iteration> all{};     // in order; they do not overlap

  size_t complete_count() const;
  // Returns the index into `all`, or kNoIteration.
  uint32_t at(uint32_t entry) const;
  // Returns the index into `phases`. REQUIRES: the trace has that entry.
  uint32_t phase_index_at(uint32_t entry) const;
};

// REQUIRES: the allocations and the traits belong to this snapshot.
Iterations find_iterations(const Snapshot& snapshot, DeviceIndex device,
                           const Allocations& allocations, const StackTraitsTable& traits);

// The peaks of requested bytes of one iteration.
struct IterationPeaks {
  Peak whole{};
  Peak by_phase[kPhaseCount] = {};  // indexed by Phase; no `entry`: the phase does not occur
};

// Returns the peaks of each iteration, in the order of `iterations.all`.
std::vector<IterationPeaks> peaks_of(const Iterations& iterations, const Timeline& timeline,
                                     const std::vector<TraceEntry>& trace);

}  // namespace ashlar
