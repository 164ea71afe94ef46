// SPDX-License-Identifier: Apache-2.0
//
// What a device's allocator held before the first entry of its trace: nothing, if the trace is
// whole; otherwise, the segments of the end with every act undone. Pure functions.
#pragma once

#include <vector>

#include "analysis/allocations.h"
#include "analysis/recorded_sizes.h"
#include "ashlar/snapshot.h"

namespace ashlar {

struct StartingState {
  // Plain segments, by address, with the blocks that were in use. A block that was freed later is
  // as large as it must have been at least, or fills what would have been too little to split off.
  std::vector<SnapshotSegment> segments{};
  // By block, in the order of segments and addresses: which allocation is in use there.
  std::vector<uint32_t> allocations{};
  size_t expandable_bytes = 0;  // mapped in expandable segments, whose addresses are not known
};

// Positions in `allocations.all` of what was there before the first entry, by address. Of several
// at one address the first seen counts: the others came later, unseen. Empty ones need no place.
std::vector<uint32_t> present_before(const Allocations& allocations);

StartingState rebuild_start(const Snapshot& snapshot, DeviceIndex device,
                            const Allocations& allocations, const RecordedSizes& sizes);

}  // namespace ashlar
