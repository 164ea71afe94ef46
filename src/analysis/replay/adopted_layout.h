// SPDX-License-Identifier: Apache-2.0
//
// Divides a layout into the segments that an engine adopts one by one. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/layout.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// Returns the number of blocks in use or pending free.
size_t used_count(const SnapshotSegment& segment);

// Returns the segments that are not expandable.
std::vector<SnapshotSegment> plain_segments_of(const Layout& layout);

// A mapped range of an expandable segment. Points into the layout.
struct ExpandablePart {
  const SnapshotSegment* segment = nullptr;
  DeviceAddress begin{};                    // of the expandable segment
  std::span<const uint32_t> allocations{};  // the elements of Layout::allocations in this range
};

// Returns the mapped ranges of a layout. A recording does not contain the addresses at which
// expandable segments begin, so the lowest address that the layout or the trace maps is used.
// Assumes one expandable segment per pool, stream and size class, as in PyTorch.
std::vector<ExpandablePart> expandable_parts_of(const Layout& layout,
                                                const std::vector<TraceEntry>& trace);

}  // namespace ashlar
