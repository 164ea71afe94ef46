// SPDX-License-Identifier: Apache-2.0
//
// Default implementations for engines without pausing, remap observers or a fast path; and the
// conversion of blocks for snapshots.
#include "engine/engine.h"

namespace ashlar {

void append_block(const Block& block, SnapshotSegment& segment) {
  SnapshotBlock entry;
  entry.address = block.address;
  entry.bytes = block.bytes;
  entry.requested_bytes = block.requested_bytes;
  entry.stack = block.stack;
  if (block.is_allocated()) entry.state = SnapshotBlockState::kAllocated;
  if (block.state == BlockState::kPending) entry.state = SnapshotBlockState::kPendingFree;
  segment.blocks.push_back(entry);
  segment.total_bytes += block.bytes;
  if (block.is_allocated()) segment.allocated_bytes += block.bytes;
  if (!block.is_active()) return;
  segment.active_bytes += block.bytes;
  segment.requested_bytes += block.requested_bytes;
}

Status Engine::pause(std::string_view, bool) {
  return Status::unsupported(
      "this engine cannot pause pools, since its addresses are tied to their memory: use "
      "engine:paged");
}

Status Engine::resume(std::string_view) {
  return Status::unsupported("this engine cannot pause or resume pools: use engine:paged");
}

Status Engine::add_remap_observer(RemapObserver) {
  return Status::unsupported("this engine does not report its mappings: use engine:paged");
}

void Engine::leave_fast_path(StreamId /*stream*/) {}

Block* Engine::allocate_fast(size_t /*bytes*/, StreamId /*stream*/) noexcept { return nullptr; }

}  // namespace ashlar
