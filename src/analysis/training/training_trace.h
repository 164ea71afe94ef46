// SPDX-License-Identifier: Apache-2.0
//
// The input of find_phases() and find_steps(): a trace with its annotated ranges and runs, which
// find_iterations() computes once.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/training/call_runs.h"
#include "analysis/training/stack_traits.h"
#include "ashlar/snapshot.h"

namespace ashlar {

struct TrainingTrace {
  const Snapshot& snapshot;
  const std::vector<TraceEntry>& entries;
  const Allocations& allocations;
  const StackTraitsTable& traits;
  std::vector<AnnotatedRange> ranges{};
  std::vector<CallRun> runs{};

  uint32_t size() const { return static_cast<uint32_t>(entries.size()); }
  // Returns the allocation that the entry begins; null if it begins none.
  const Allocation* begun_at(uint32_t entry) const {
    const uint32_t id = allocations.by_entry[entry];
    if (id == Allocations::kNoAllocation) return nullptr;
    const Allocation& allocation = allocations.all[id];
    return allocation.alloc_entry == entry ? &allocation : nullptr;
  }
};

}  // namespace ashlar
