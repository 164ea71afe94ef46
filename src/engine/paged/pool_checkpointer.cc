// SPDX-License-Identifier: Apache-2.0
//
// Takes checkpoints of private pools, and restores blocks at their recorded addresses.
#include "engine/paged/pool_checkpointer.h"

#include <utility>

#include "base/text.h"

namespace ashlar::paged {
namespace {

BlockRecord::State recorded_state(const PagedBlock& block) {
  if (block.is_detached()) return BlockRecord::State::kUnmapped;
  return block.is_allocated() ? BlockRecord::State::kAllocated : BlockRecord::State::kFree;
}

// Returns the view that contains the range; null if part of the range no longer has memory.
View* find_view(const PagedPool& pool, AddressRange range) {
  for (const auto& view : pool.views) {
    if (!AddressRange{view->reserved.begin, view->mapped_bytes}.contains(range)) continue;
    if (view->is_plain) return view.get();
    const size_t begin = range.begin - view->reserved.begin;
    for (size_t i = view->slot_at(begin);
         i < view->slots.size() && view->slots[i].offset < begin + range.bytes; ++i) {
      if (view->slots[i].extent == nullptr || view->slots[i].is_retired()) return nullptr;
    }
    return view.get();
  }
  return nullptr;
}

}  // namespace

Result<PoolCheckpoint> PoolCheckpointer::take(PagedPool& pool) {
  ArenaLocks arenas(pool);
  pool.flush();
  PoolCheckpoint taken{pool.id, {}};
  for (const auto& view : pool.views) {
    SegmentRecord segment{view->is_small, {}, view->arena->stream};
    for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
      Status checked = block->is_active() ? check_recordable(*block, pool.id) : Status();
      if (!checked.ok()) return checked;
      segment.blocks.push_back(
          {{block->address, block->bytes}, block->requested_bytes, recorded_state(*block)});
    }
    taken.segments.push_back(std::move(segment));
  }
  pool.has_recorded_addresses = true;
  return taken;
}

// Allocates all host memory before the first change.
Result<RestoreResult> PoolCheckpointer::restore(PagedPool& pool, const PoolCheckpoint& checkpoint) {
  std::vector<Stitcher::ExactRange> ranges;
  for (const SegmentRecord& segment : checkpoint.segments) {
    for (const BlockRecord& record : segment.blocks) {
      if (record.state != BlockRecord::State::kAllocated) continue;
      View* view = find_view(pool, record.range);
      if (view == nullptr) {
        return Status::invalid_argument(text("could not find the memory at ", record.range.begin,
                                             " of pool ", pool.id,
                                             ": it was released since the checkpoint"));
      }
      ranges.push_back(
          {*view, pools_.arena_of(pool, segment.stream), record.range, record.requested_bytes});
    }
  }
  RestoreResult change;
  change.allocated.reserve(ranges.size());
  Stitcher::ExactScratch scratch = Stitcher::prepare_exact(pool, ranges);
  if (Status freed = free_all(pool, change.freed); !freed.ok()) return freed;
  for (const Stitcher::ExactRange& range : ranges) {
    change.allocated.push_back(stitcher_.allocate_at(range, scratch, error_));
  }
  return change;
}

Status PoolCheckpointer::free_all(PagedPool& pool, std::vector<DeviceAddress>& freed) {
  ArenaLocks arenas(pool);
  std::vector<PagedBlock*> active;
  for (const auto& view : pool.views) {
    for (PagedBlock* block = view->first; block != nullptr; block = block->next) {
      if (!block->is_active()) continue;
      if (Status checked = check_restorable(*block, pool.id); !checked.ok()) return checked;
      active.push_back(block);
    }
  }
  freed.reserve(active.size());
  for (PagedBlock* block : active) {
    freed.push_back(block->address);
    tracer_.trace_free(*block, {});
    block->arena->free(block);
  }
  pool.flush();
  return {};
}

}  // namespace ashlar::paged
