// SPDX-License-Identifier: Apache-2.0
//
// Taking and restoring the state of a private pool. As long as the pool is held none of its
// mappings goes, so that whatever was allocated once can be allocated there again.
#include "ashlar/checkpoint.h"

#include <algorithm>

#include "base/text.h"
#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

BlockRecord::State recorded_state(const PagedBlock& block) {
  if (block.is_away()) return BlockRecord::State::kUnmapped;
  return block.is_allocated() ? BlockRecord::State::kAllocated : BlockRecord::State::kFree;
}

}  // namespace

Result<PoolCheckpoint> PagedEngine::checkpoint(PoolId id) {
  MutexLock lock(mutex_);
  PagedPool* pool = find_pool(id);
  if (pool == nullptr || id.is_default()) return no_such_pool(id);
  if (routes_.is_freeable(id))
    return Status::invalid_argument("a pool that was let go has no checkpoint");
  std::vector<Block*> finished;
  Status collected = waiting_.collect(finished);
  make_all_free(finished);
  if (!collected.ok()) return collected;
  AllArenas arenas(*pool);
  for (const auto& [stream, arena] : pool->arenas) arena->flush();
  PoolCheckpoint taken{id, {}};
  for (const auto& view : pool->views) {
    SegmentRecord segment{view->is_small, {}, view->arena->stream};
    for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
      Status right = block->is_active() ? check_recordable(*block, id) : Status();
      if (!right.ok()) return right;
      segment.blocks.push_back(
          {{block->address, block->bytes}, block->requested_bytes, recorded_state(*block)});
    }
    taken.segments.push_back(std::move(segment));
  }
  pool->is_baked = true;
  return taken;
}

Result<RestoreResult> PagedEngine::restore(const PoolCheckpoint& checkpoint) {
  Result<RestoreResult> change = [&]() -> Result<RestoreResult> {
    MutexLock lock(mutex_);
    caller_stack_ = {};
    Result<RestoreResult> restored = restore_locked(checkpoint);
    refresh();
    return restored;
  }();
  settle();
  hooks_.notify();
  return change;
}

// Checked in full before anything changes: a restore that fails leaves the pool as it was.
Result<RestoreResult> PagedEngine::restore_locked(const PoolCheckpoint& checkpoint) {
  PagedPool* pool = find_pool(checkpoint.pool);
  if (pool == nullptr || checkpoint.pool.is_default()) return no_such_pool(checkpoint.pool);
  if (pool->is_paused) return paused(*pool);
  std::vector<Block*> finished;
  Status collected = waiting_.collect(finished);
  make_all_free(finished);
  if (!collected.ok()) return collected;

  std::vector<Place> places;
  for (const SegmentRecord& segment : checkpoint.segments) {
    for (const BlockRecord& record : segment.blocks) {
      if (record.state != BlockRecord::State::kAllocated) continue;
      View* view = view_around(*pool, record.range);
      if (view == nullptr) {
        return Status::invalid_argument(text("could not find the memory at ", record.range.begin,
                                             ": it was given back since the checkpoint"));
      }
      places.push_back({view, record, segment.stream});
    }
  }

  RestoreResult change;
  if (Status freed = free_all(*pool, change.freed); !freed.ok()) return freed;
  for (const Place& place : places) change.allocated.push_back(allocate_at(*pool, place));
  return change;
}

Status PagedEngine::free_all(PagedPool& pool, std::vector<DeviceAddress>& freed) {
  AllArenas arenas(pool);
  std::vector<PagedBlock*> allocated;
  for (const auto& view : pool.views) {
    for (PagedBlock* block = view->first; block != nullptr; block = block->next) {
      if (!block->is_active()) continue;
      if (Status right = check_restorable(*block, pool.id); !right.ok()) return right;
      allocated.push_back(block);
    }
  }
  for (PagedBlock* block : allocated) {
    freed.push_back(block->address);
    take_back(block, {});
  }
  for (const auto& [stream, arena] : pool.arenas) arena->flush();
  return {};
}

// Null: some of it has no memory any more.
View* PagedEngine::view_around(const PagedPool& pool, AddressRange range) {
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

// REQUIRES: nothing lives there, nor through other views on the same extents.
Block* PagedEngine::allocate_at(PagedPool& pool, const Place& place) {
  View& view = *place.view;
  Claim claim;
  claim.view = &view;
  claim.offset = place.record.range.begin - view.reserved.begin;
  Arena& arena = arena_of(pool, place.stream);
  {
    AllArenas arenas(pool);
    // Another stream may have taken over the view since: it goes back, and is in order below.
    if (view.arena != &arena && !view.is_plain && !is_in_use(view)) move_view(view, arena);
    std::set<const Arena*> all;
    for (const auto& [stream, each] : pool.arenas) all.insert(each.get());
    mark_idle(pool, all, &arena);
    PagedBlock* from = view.first;
    while (from->end() <= place.record.range.begin) from = from->next;
    claim_range(view, from, place.record.range, claim);
  }
  // The restore has gone too far to fail: where no event can put work in order, the host waits.
  if (!hand_over(claim.lenders, *view.arena).ok()) {
    if (Status waited = device_.synchronize_device(); !waited.ok()) defer_error(std::move(waited));
  }
  show_at_home(claim);
  BiasedLock lock(view.arena->lock);
  return hand_out_of(claim, place.record.range.bytes,
                     {place.record.requested_bytes, view.arena->stream, {}});
}

}  // namespace ashlar::paged
