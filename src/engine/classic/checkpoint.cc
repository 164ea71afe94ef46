// SPDX-License-Identifier: Apache-2.0
//
// Taking and restoring the state of a private pool.
#include "ashlar/checkpoint.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "engine/classic/act.h"

namespace ashlar::classic {
namespace {

Status cannot_find(DeviceAddress address, PoolId pool) {
  return Status::invalid_argument(text("could not find the segment at ", address, " of pool ", pool,
                                       ": it was given back since the checkpoint"));
}

BlockRecord::State recorded_state(const ClassicBlock& block) {
  if (!block.is_mapped()) return BlockRecord::State::kUnmapped;
  return block.is_allocated() ? BlockRecord::State::kAllocated : BlockRecord::State::kFree;
}

// The stretches of a segment that have memory behind them.
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

}  // namespace

// --- taking
// ---------------------------------------------------------------------------------------

Result<PoolCheckpoint> ClassicEngine::checkpoint(PoolId id) {
  Act act(*this, {});
  const PrivatePool* pool = find_pool(id);
  if (pool == nullptr) return no_such_pool(id);
  if (routes_.is_freeable(id)) {
    return Status::invalid_argument(text("pool ", id, " was let go: it has no checkpoint"));
  }
  if (Status collected = collect_deferred(); !collected.ok()) return collected;
  PoolCheckpoint taken{id, {}};
  for (const ClassicBlock* first : first_blocks_of(*pool)) {
    SegmentRecord segment{first->pool->is_small(), {}, first->stream};
    for (const ClassicBlock* block = first; block != nullptr; block = block->next) {
      if (Status right = check_recordable(*block, id); !right.ok()) return right;
      segment.blocks.push_back(
          {{block->address, block->bytes}, block->requested_bytes, recorded_state(*block)});
    }
    taken.segments.push_back(std::move(segment));
  }
  return taken;
}

// Every segment of the pool, by its first block, in address order.
std::vector<ClassicBlock*> ClassicEngine::first_blocks_of(const PrivatePool& pool) {
  std::vector<ClassicBlock*> first_blocks;
  blocks_.for_each([&](ClassicBlock* block) {
    const bool is_first = block->previous == nullptr && block->pool->owner() == &pool;
    if (is_first) first_blocks.push_back(block);
  });
  std::sort(first_blocks.begin(), first_blocks.end(),
            [](const ClassicBlock* a, const ClassicBlock* b) { return a->address < b->address; });
  return first_blocks;
}

// --- restoring
// ------------------------------------------------------------------------------------

Result<RestoreResult> ClassicEngine::restore(const PoolCheckpoint& checkpoint) {
  Act act(*this, {});
  return restore_locked(checkpoint);
}

// Checked in full before anything changes: a restore that fails leaves the pool as it was.
Result<RestoreResult> ClassicEngine::restore_locked(const PoolCheckpoint& checkpoint) {
  const PrivatePool* pool = find_pool(checkpoint.pool);
  if (pool == nullptr) return no_such_pool(checkpoint.pool);
  if (Status collected = collect_deferred(); !collected.ok()) return collected;
  std::vector<AddressRange> runs_now;
  std::vector<ClassicBlock*> allocated;
  for (ClassicBlock* first : first_blocks_of(*pool)) {
    SegmentRecord now;
    for (ClassicBlock* block = first; block != nullptr; block = block->next) {
      if (Status right = check_restorable(*block, pool->id); !right.ok()) return right;
      if (block->is_allocated()) allocated.push_back(block);
      now.blocks.push_back({{block->address, block->bytes}, 0, recorded_state(*block)});
    }
    const std::vector<AddressRange> runs = mapped_runs(now);
    runs_now.insert(runs_now.end(), runs.begin(), runs.end());
  }
  for (const SegmentRecord& segment : checkpoint.segments) {
    for (const AddressRange& run : mapped_runs(segment)) {
      // An expandable segment may have grown since: what is new stays free.
      const bool is_there =
          std::any_of(runs_now.begin(), runs_now.end(), [&](const AddressRange& now) {
            return now.begin == run.begin && now.bytes >= run.bytes;
          });
      if (!is_there) return cannot_find(run.begin, pool->id);
    }
  }

  RestoreResult change;
  for (ClassicBlock* block : allocated) {
    change.freed.push_back(block->address);
    if (Status freed = free_locked(block); !freed.ok()) return freed;
  }
  for (const SegmentRecord& segment : checkpoint.segments) {
    restore_segment(*pool, segment, change);
  }
  return change;
}

// Each mapped run of the segment begins a free block now, which is no shorter. It is cut as
// recorded, whatever the rules for splitting say today, and what was free then becomes free again.
void ClassicEngine::restore_segment(const PrivatePool& pool, const SegmentRecord& segment,
                                    RestoreResult& change) {
  const FreePool& free = segment.is_small ? pool.small : pool.large;
  std::vector<ClassicBlock*> to_free;
  ClassicBlock* rest = nullptr;  // the free block that the next record is cut from
  for (const BlockRecord& record : segment.blocks) {
    if (record.state == BlockRecord::State::kUnmapped) continue;
    if (rest == nullptr || rest->address != record.range.begin) {
      rest = free.blocks().first();
      while (rest != nullptr && rest->address != record.range.begin) {
        rest = FreePool::Blocks::next(rest);
      }
      ASHLAR_CHECK(rest != nullptr);  // restore_locked found the run
    }
    rest->pool->erase(rest);
    Search search;
    search.request = {record.requested_bytes, rest->stream};
    search.block_bytes = record.range.bytes;
    search.pool = rest->pool;
    ClassicBlock* block = hand_out(rest, search, SplitRule::kExactly);
    if (block == rest) rest = nullptr;
    if (record.state == BlockRecord::State::kAllocated) {
      change.allocated.push_back(block);
    } else {
      to_free.push_back(block);
    }
  }
  for (ClassicBlock* block : to_free) (void)free_locked(block).ok();
}

}  // namespace ashlar::classic
