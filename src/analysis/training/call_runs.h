// SPDX-License-Identifier: Apache-2.0
//
// Divides a trace into runs: consecutive entries from the same part of a training loop, such as one
// backward pass. Phases and iterations are derived from runs. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/training/iterations.h"
#include "analysis/training/stack_traits.h"
#include "ashlar/snapshot.h"

namespace ashlar {

enum class RunKind : uint8_t {
  kOther,      // code of the program or of a library outside the other kinds
  kBackward,   // one call of backward()
  kOptimizer,  // Optimizer.step(), without the closures that it calls
  kZeroGrad,   // zero_grad()
};

struct CallRun {
  RunKind kind = RunKind::kOther;
  EntryRange entries{};
  // kBackward only: the stack of the first allocation on the thread that called backward(); unset
  // if there is none.
  StackId backward_call{};
};

// An annotated range: the entries between a START annotation and an END with the same name, or the
// end of the trace if there is no END.
struct AnnotatedRange {
  std::string name{};
  EntryRange entries{};  // may be empty
};

// Returns the annotated ranges of a device, sorted by first entry; none if an entry has no time.
std::vector<AnnotatedRange> annotated_ranges(const Snapshot& snapshot, DeviceIndex device);

// Returns whether a range is PyTorch's annotation of Optimizer.step().
bool is_optimizer_step(const AnnotatedRange& range);

// Returns the runs in order; they cover the whole trace.
std::vector<CallRun> find_call_runs(const std::vector<TraceEntry>& trace,
                                    const StackTraitsTable& traits,
                                    const std::vector<AnnotatedRange>& ranges);

}  // namespace ashlar
