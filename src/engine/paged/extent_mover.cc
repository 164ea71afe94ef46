// SPDX-License-Identifier: Apache-2.0
//
// Attaches and detaches extents, and splits blocks as needed.
#include "engine/paged/extent_mover.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ashlar::paged {

void ExtentMover::attach(Extent& extent, View& view, size_t slot) noexcept {
  extent.attached_view = &view;
  extent.attached_slot = slot;
  view.slots[slot].has_displaced = returns_displaced_ && view.is_displaced(extent);
  if (view.slots[slot].has_displaced) ++view.displaced_count;
  view.arena->pool.idle.set_attached_view(extent, view.id);
  ++view.attached_count;
  view.arena->pool.idle.set_active(extent);
  extent.marker_round = 0;
}

void ExtentMover::detach(Extent& extent) noexcept {
  View& view = *extent.attached_view;
  Slot& slot = view.slots[extent.attached_slot];
  slot.detached_at = next_tick();
  if (std::exchange(slot.has_displaced, false)) --view.displaced_count;
  view.arena->pool.idle.set_attached_view(extent, 0);
  --view.attached_count;
  extent.attached_view = nullptr;
}

void ExtentMover::detach_idle(Extent& extent) noexcept {
  View& view = *extent.attached_view;
  Arena& arena = *view.arena;
  const Slot& slot = view.slots[extent.attached_slot];
  PagedBlock* block = arena.pool.idle.block_of(extent.number());
  ASHLAR_DCHECK(block != nullptr && block->is_in_ranges());
  arena.erase_free(block);
  FreeRanges& ranges = arena.sub_arena(view.is_small).ranges;
  const size_t begin = view.offset_of(*block);
  const size_t end = begin + block->bytes;
  // The larger of the two remainders keeps the block. An extent then changes its block at most
  // log2(n) times while all n extents of a block are detached.
  PagedBlock* extent_block = block;
  if (end - slot.end() > slot.offset - begin) {
    if (slot.offset > begin) {
      PagedBlock* before = arena.split_front(block, slot.offset);
      set_idle_block(view, begin, slot.offset, before);
      ranges.insert(before);
    }
    extent_block = arena.split_front(block, slot.end());
    ranges.insert(block);
  } else {
    PagedBlock* after = slot.end() < end ? arena.split(block, slot.end()) : nullptr;
    if (slot.offset > begin) {
      extent_block = arena.split(block, slot.offset);
      ranges.insert(block);
    }
    if (after != nullptr) {
      set_idle_block(view, slot.end(), end, after);
      ranges.insert(after);
    }
  }
  arena.add_detached(extent_block);
  detach(extent);
}

// Records `block` as the free block of the extents in [begin, end), which it contains.
void ExtentMover::set_idle_block(const View& view, size_t begin, size_t end,
                                 PagedBlock* block) noexcept {
  IdleMap& idle = view.arena->pool.idle;
  for (size_t i = view.slot_at(begin); i < view.slots.size() && view.slots[i].offset < end; ++i) {
    if (view.slots[i].extent != nullptr) idle.set_block(view.slots[i].extent->number(), block);
  }
}

void ExtentMover::move_view(View& view, Arena& arena) noexcept {
  Arena& before = *view.arena;
  for (PagedBlock* block = view.first; block != nullptr; block = block->next) {
    if (!block->is_detached()) before.erase_free(block);
  }
  for (const Slot& slot : view.slots) {
    if (slot.extent != nullptr && slot.extent->attached_view == &view) detach(*slot.extent);
  }
  before.unqueue_return(view);
  before.move_reserve_to(arena, view);
  while (view.first->next != nullptr) before.remove_block(view.first->next);
  view.first->bytes = view.mapped_bytes;
  view.first->arena = &arena;
  view.first->stream = arena.stream;
  view.arena = &arena;
  arena.add_detached(view.first);
}

PagedBlock* ExtentMover::take_range(View& view, PagedBlock* from, AddressRange range,
                                    std::vector<Arena*>& lenders) noexcept {
  Arena& arena = *view.arena;
  const size_t begin = range.begin - view.reserved.begin;
  const size_t end = begin + range.bytes;
  PagedBlock* taken = nullptr;
  for (PagedBlock* block = from; block != nullptr && view.offset_of(*block) < end;) {
    const size_t block_begin = view.offset_of(*block);
    const size_t block_end = block_begin + block->bytes;
    size_t cut_begin = std::max(begin, block_begin);
    size_t cut_end = std::min(end, block_end);
    const bool is_detached = block->is_detached();
    if (is_detached) {
      const size_t first = view.slot_at(cut_begin);
      const size_t last = view.slot_at(cut_end - 1);
      for (size_t i = first; i <= last; ++i) {
        Extent& extent = *view.slots[i].extent;
        if (extent.attached_view != nullptr) detach_idle(extent);
        if (extent.arena != &arena) lenders.push_back(extent.arena);
        attach(extent, view, i);
      }
      cut_begin = view.slots[first].offset;
      cut_end = view.slots[last].end();
    } else {
      arena.erase_free(block);
    }
    // Frees the remainders only after both splits, because add_free may merge and remove blocks.
    PagedBlock* wanted = cut_begin > block_begin ? arena.split(block, cut_begin) : block;
    PagedBlock* rest = cut_end < block_end ? arena.split(wanted, cut_end) : nullptr;
    wanted->state = BlockState::kPending;
    if (!is_detached && wanted != block) arena.add_free(block);
    if (!is_detached && rest != nullptr) arena.add_free(rest);
    PagedBlock* next = wanted->next;
    if (taken == nullptr) {
      taken = wanted;
    } else {
      taken->bytes += wanted->bytes;
      arena.remove_block(wanted);
    }
    block = next;
  }
  return taken;
}

void ExtentMover::return_range(PagedBlock* block) noexcept {
  View& view = *block->view;
  Arena& arena = *view.arena;
  const size_t begin = view.offset_of(*block);
  const size_t end = begin + block->bytes;
  size_t whole_begin = end;
  size_t whole_end = end;
  for (size_t i = view.slot_at(begin); i < view.slots.size() && view.slots[i].end() <= end; ++i) {
    if (view.slots[i].offset < begin) continue;
    whole_begin = std::min(whole_begin, view.slots[i].offset);
    whole_end = view.slots[i].end();
    detach(*view.slots[i].extent);
  }
  if (whole_begin >= whole_end) {
    arena.add_free(block);
    return;
  }
  // The partial slots at both ends come from free blocks, and their extents stay attached.
  PagedBlock* after = whole_end < end ? arena.split(block, whole_end) : nullptr;
  PagedBlock* middle = whole_begin > begin ? arena.split(block, whole_begin) : block;
  if (after != nullptr) arena.add_free(after);
  if (middle != block) arena.add_free(block);
  arena.add_detached(middle);
}

void ExtentMover::return_displaced(Arena& arena) noexcept {
  while (!arena.return_queue.empty()) {
    View& queued = arena.return_queue.take_last();
    for (PagedBlock *block = queued.first, *next = nullptr; block != nullptr; block = next) {
      next = block->next;
      if (block->is_in_ranges()) return_displaced_in(block);
    }
  }
}

// Returns the displaced extents that lie entirely inside a free block.
void ExtentMover::return_displaced_in(PagedBlock* block) noexcept {
  View& view = *block->view;
  Arena& arena = *view.arena;
  FreeRanges& ranges = arena.sub_arena(view.is_small).ranges;
  const size_t begin = view.offset_of(*block);
  const size_t end = begin + block->bytes;
  ranges.erase(block);
  PagedBlock* rest = block;
  for (size_t i = view.slot_at(begin); rest != nullptr && i < view.slots.size(); ++i) {
    const Slot& slot = view.slots[i];
    if (slot.end() > end) break;
    if (slot.offset < begin || !view.is_displaced(*slot.extent)) continue;
    PagedBlock* displaced_block = rest;
    if (slot.offset > view.offset_of(*rest)) {
      displaced_block = arena.split(rest, slot.offset);
      ranges.insert(rest);
    }
    rest = slot.end() < end ? arena.split(displaced_block, slot.end()) : nullptr;
    arena.add_detached(displaced_block);
    detach(*slot.extent);
    attach_to_origin(*slot.extent, arena);
  }
  if (rest != nullptr) ranges.insert(rest);
}

// Makes the memory of a detached extent free at the extent's origin.
void ExtentMover::attach_to_origin(Extent& extent, Arena& arena) noexcept {
  View& origin = *extent.origin.view;
  const Slot& slot = origin.slots[extent.origin.slot];
  PagedBlock* block = slot.detached_block;
  attach(extent, origin, extent.origin.slot);
  block->state = BlockState::kPending;
  tracer_.trace_move(extent, origin.range_of(slot), arena);
  arena.add_free(block);
}

}  // namespace ashlar::paged
