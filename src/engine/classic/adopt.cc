// SPDX-License-Identifier: Apache-2.0
//
// Taking over a segment as a snapshot has it, for replays that begin in the middle of a run.
#include "base/text.h"
#include "engine/classic/classic_engine.h"

namespace ashlar::classic {

Result<std::vector<ClassicBlock*>> ClassicEngine::adopt(const SnapshotSegment& segment) {
  size_t tiled_bytes = 0;
  for (const SnapshotBlock& block : segment.blocks) {
    const bool follows = block.address == segment.address + tiled_bytes && block.bytes > 0;
    if (!follows)
      return Status::invalid_argument(
          text("the blocks of the segment do not tile it at ", block.address));
    tiled_bytes += block.bytes;
  }
  if (tiled_bytes != segment.total_bytes || segment.is_expandable) {
    return Status::invalid_argument(text("cannot take over the segment at ", segment.address,
                                         ": it is expandable, or its blocks do not add up"));
  }
  MutexLock lock(mutex_);
  Search search;
  search.request.stream = segment.stream;
  search.segment_bytes = segment.total_bytes;
  search.pool = segment.is_large ? &large_ : &small_;
  Result<ClassicBlock*> grown = grow_plain(search);
  if (!grown.ok()) return grown.status();

  // Cut from the front, block by block; what was free is let go at the end, as neighbours merge.
  std::vector<ClassicBlock*> active;
  std::vector<ClassicBlock*> to_free;
  ClassicBlock* rest = *grown;
  for (const SnapshotBlock& wanted : segment.blocks) {
    const bool is_active = wanted.state != SnapshotBlockState::kInactive;
    search.block_bytes = wanted.bytes;
    search.request.bytes = is_active ? wanted.requested_bytes : wanted.bytes;
    const bool is_last = rest->bytes == wanted.bytes;
    ClassicBlock* block = hand_out(rest, search, SplitRule::kExactly);
    if (!is_last) search.pool->erase(rest);
    (is_active ? active : to_free).push_back(block);
  }
  for (ClassicBlock* block : to_free) (void)free_locked(block).ok();
  hooks_.discard_queued();  // what led here is not part of the replay
  return active;
}

}  // namespace ashlar::classic
