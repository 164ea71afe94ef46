// SPDX-License-Identifier: Apache-2.0
//
// Reconstructs the segments of an allocator and their blocks at any moment of a recording. Undoes
// all segment events, starting from the final state, which yields the segments before the first
// entry (none if the trace is complete); then applies the entries up to the moment. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/recorded_size_policy.h"
#include "ashlar/snapshot.h"

namespace ashlar {

struct Layout {
  // Segments, sorted by address, with their blocks. As in a snapshot, a contiguous mapped range of
  // an expandable segment counts as one segment. The sizes of blocks are exact, with one exception:
  // a block that predates the trace and is freed later has the minimum size for its request, plus
  // any remainder that is too small to split off.
  std::vector<SnapshotSegment> segments{};
  // The index into Allocations::all of each block in use or pending free, ordered by segment and
  // address. Allocations outside all segments, which inconsistent files contain, are left out.
  std::vector<uint32_t> allocations{};

  size_t reserved_bytes() const;
};

// Returns the indexes into `allocations.all` of the allocations that predate the trace, sorted by
// address, without empty allocations. If several allocations have the same address, only the first
// is included, because the others must have been allocated later, without an entry.
std::vector<uint32_t> preexisting_allocations(const Allocations& allocations);

// Returns the layout after entry `moment`; unset: before the first entry.
Layout reconstruct_layout(const Snapshot& snapshot, DeviceIndex device,
                          const Allocations& allocations, const RecordedSizePolicy& sizes,
                          std::optional<uint32_t> moment);

// Returns how many bytes torch.cuda.empty_cache() would return to the device in the final state:
// unused segments and, in expandable segments, unused granules. Excludes private pools, whose
// segments a graph may still use, and paused segments, which occupy no device memory.
size_t releasable_bytes(const Snapshot& snapshot, DeviceIndex device,
                        const RecordedSizePolicy& sizes);

}  // namespace ashlar
