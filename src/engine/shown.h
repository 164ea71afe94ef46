// SPDX-License-Identifier: Apache-2.0
//
// A block in the words of a snapshot, and adding blocks up to a segment: the same for every engine.
#pragma once

#include "ashlar/snapshot.h"
#include "engine/block.h"

namespace ashlar {

// Appends the block to a segment that it is the next part of.
inline void show_block(const Block& block, SnapshotSegment& segment) {
  SnapshotBlock shown;
  shown.address = block.address;
  shown.bytes = block.bytes;
  shown.requested_bytes = block.requested_bytes;
  shown.stack = block.stack;
  if (block.is_allocated()) shown.state = SnapshotBlockState::kAllocated;
  if (block.state == BlockState::kPending) shown.state = SnapshotBlockState::kPendingFree;
  segment.blocks.push_back(shown);
  segment.total_bytes += block.bytes;
  if (block.is_allocated()) segment.allocated_bytes += block.bytes;
  if (!block.is_active()) return;
  segment.active_bytes += block.bytes;
  segment.requested_bytes += block.requested_bytes;
}

}  // namespace ashlar
