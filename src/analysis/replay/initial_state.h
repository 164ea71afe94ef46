// SPDX-License-Identifier: Apache-2.0
//
// Reconstructs the state of an allocator before the first entry of its trace: the final state with
// all segment events undone. The initial state is empty if the trace is complete. Pure functions.
#pragma once

#include <vector>

#include "analysis/allocations.h"
#include "analysis/recorded_size_policy.h"
#include "ashlar/snapshot.h"

namespace ashlar {

struct InitialState {
  // Segments that are not expandable, sorted by address, with their blocks. Blocks that are freed
  // later have the minimum size for their request, plus any remainder that is too small to split
  // off.
  std::vector<SnapshotSegment> segments{};
  // The index into Allocations::all of each block in use, ordered by segment and address.
  std::vector<uint32_t> allocations{};
  size_t expandable_bytes = 0;  // mapped in expandable segments; their addresses are unknown
};

// Returns the indexes into `allocations.all` of the allocations that predate the trace, sorted by
// address, without empty allocations. If several allocations have the same address, only the first
// is included; the others were allocated later without an entry.
std::vector<uint32_t> preexisting_allocations(const Allocations& allocations);

InitialState reconstruct_initial_state(const Snapshot& snapshot, DeviceIndex device,
                                       const Allocations& allocations,
                                       const RecordedSizePolicy& sizes);

}  // namespace ashlar
