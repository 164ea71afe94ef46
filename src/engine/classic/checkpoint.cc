// SPDX-License-Identifier: Apache-2.0
//
// Restores in three steps: checks that all recorded memory is still mapped, frees all blocks of the
// pool, then splits the free blocks as recorded.
#include "engine/classic/checkpoint.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace ashlar::classic {
namespace {

Status segment_missing_error(DeviceAddress address, PoolId pool) {
  return Status::invalid_argument(text("could not find the segment at ", address, " of pool ", pool,
                                       ": it was released since the checkpoint"));
}

BlockRecord::State recorded_state(const ClassicBlock& block) {
  if (!block.is_mapped()) return BlockRecord::State::kUnmapped;
  return block.is_allocated() ? BlockRecord::State::kAllocated : BlockRecord::State::kFree;
}

// Returns the contiguous mapped ranges of a segment.
std::vector<AddressRange> mapped_runs(const SegmentRecord& segment) {
  std::vector<AddressRange> runs;
  for (const BlockRecord& block : segment.blocks) {
    if (block.state == BlockRecord::State::kUnmapped) continue;
    if (!runs.empty() && runs.back().end() == block.range.begin) {
      runs.back().bytes += block.range.bytes;
    } else {
      runs.push_back(block.range);
    }
  }
  return runs;
}

// The part of a pool's current state that a restore needs.
struct PoolState {
  std::vector<AddressRange> mapped;
  std::vector<ClassicBlock*> allocated;
};

Result<PoolState> restorable_state(const PrivatePool& pool, BlockHeap& heap) {
  PoolState state;
  for (ClassicBlock* first : heap.first_blocks(pool)) {
    SegmentRecord segment;
    for (ClassicBlock* block = first; block != nullptr; block = block->next) {
      if (Status checked = check_restorable(*block, pool.id); !checked.ok()) return checked;
      if (block->is_allocated()) state.allocated.push_back(block);
      segment.blocks.push_back({{block->address, block->bytes}, 0, recorded_state(*block)});
    }
    const std::vector<AddressRange> runs = mapped_runs(segment);
    state.mapped.insert(state.mapped.end(), runs.begin(), runs.end());
  }
  return state;
}

// Checks that all recorded memory is still mapped. An expandable segment may have grown since the
// checkpoint; its new part stays free.
Status check_mapped(const PoolCheckpoint& checkpoint, const PoolState& state) {
  for (const SegmentRecord& segment : checkpoint.segments) {
    for (const AddressRange& run : mapped_runs(segment)) {
      const bool is_mapped =
          std::any_of(state.mapped.begin(), state.mapped.end(), [&](const AddressRange& now) {
            return now.begin == run.begin && now.bytes >= run.bytes;
          });
      if (!is_mapped) return segment_missing_error(run.begin, checkpoint.pool);
    }
  }
  return {};
}

// Splits the free memory of a segment as recorded, regardless of the current split rules, and frees
// the blocks that were free at the checkpoint. REQUIRES: a free block that is at least as long
// starts at the beginning of each recorded run; the vectors have capacity, and the heap a
// reservation, for all blocks.
void restore_segment(const PrivatePool& pool, const SegmentRecord& segment, BlockHeap& heap,
                     std::vector<Block*>& allocated, std::vector<ClassicBlock*>& to_free) {
  const FreePool& free = segment.is_small ? pool.small : pool.large;
  to_free.clear();
  ClassicBlock* rest = nullptr;  // the free block that the next record is cut from
  for (const BlockRecord& record : segment.blocks) {
    if (record.state == BlockRecord::State::kUnmapped) continue;
    if (rest == nullptr || rest->address != record.range.begin) {
      rest = free.blocks().first();
      while (rest != nullptr && rest->address != record.range.begin) {
        rest = FreePool::Blocks::next(rest);
      }
      ASHLAR_CHECK(rest != nullptr);  // check_mapped found the run
    }
    rest->pool->erase(rest);
    AllocParams params;
    params.request = {record.requested_bytes, rest->stream};
    params.block_bytes = record.range.bytes;
    params.pool = rest->pool;
    ClassicBlock* block = heap.allocate(rest, params, BlockHeap::SplitRule::kExact);
    if (block == rest) rest = nullptr;
    if (record.state == BlockRecord::State::kAllocated) {
      allocated.push_back(block);
    } else {
      to_free.push_back(block);
    }
  }
  for (ClassicBlock* block : to_free) heap.free(block);
}

}  // namespace

Result<PoolCheckpoint> take_checkpoint(const PrivatePool& pool, BlockHeap& heap) {
  PoolCheckpoint checkpoint{pool.id, {}};
  for (const ClassicBlock* first : heap.first_blocks(pool)) {
    SegmentRecord segment{first->pool->is_small(), {}, first->stream};
    for (const ClassicBlock* block = first; block != nullptr; block = block->next) {
      if (Status checked = check_recordable(*block, pool.id); !checked.ok()) return checked;
      segment.blocks.push_back(
          {{block->address, block->bytes}, block->requested_bytes, recorded_state(*block)});
    }
    checkpoint.segments.push_back(std::move(segment));
  }
  return checkpoint;
}

// All checks, and all allocations of host memory, come before the first change, so that a failure
// leaves the pool unchanged.
Result<RestoreResult> restore_checkpoint(const PoolCheckpoint& checkpoint, const PrivatePool& pool,
                                         BlockHeap& heap) {
  const Result<PoolState> state = restorable_state(pool, heap);
  if (!state.ok()) return state.status();
  if (Status checked = check_mapped(checkpoint, *state); !checked.ok()) return checked;

  size_t block_count = 0;
  for (const SegmentRecord& segment : checkpoint.segments) block_count += segment.blocks.size();
  const BlockStore::Reservation for_splits = heap.reserve(block_count);
  std::vector<ClassicBlock*> to_free;
  to_free.reserve(block_count);
  RestoreResult result;
  result.freed.reserve(state->allocated.size());
  result.allocated.reserve(block_count);

  for (ClassicBlock* block : state->allocated) {
    result.freed.push_back(block->address);
    heap.free(block);
  }
  for (const SegmentRecord& segment : checkpoint.segments) {
    restore_segment(pool, segment, heap, result.allocated, to_free);
  }
  return result;
}

}  // namespace ashlar::classic
