// SPDX-License-Identifier: Apache-2.0
//
// Scans for idle extents: those inside free blocks, and those that are detached.
#include "engine/paged/pool/idle_map.h"

#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {
namespace {

constexpr int64_t kVisitsPerRange = 2;  // the block and its view

void mark_slots_of(PagedBlock* block, IdleMap& idle, bool is_borrowed) {
  View& view = *block->view;
  const size_t begin = view.offset_of(*block);
  const size_t end = begin + block->bytes;
  size_t slot = view.slot_at(begin);
  for (size_t slot_begin = view.slot_begin(slot); slot_begin < end; ++slot) {
    const size_t slot_end = view.slot_end(slot);
    const uint32_t extent = view.packed[slot].extent;
    if (slot_begin >= begin && slot_end <= end) {
      idle.set_idle(extent, block, is_borrowed);
      ++view.planning.idle_count;
    } else if (slot_end <= end) {
      idle.set_free_end(extent, slot_end - begin);
    } else if (slot_begin >= begin) {
      idle.set_free_begin(extent, end - slot_begin);
    }
    slot_begin = slot_end;
  }
}

}  // namespace

int64_t mark_idle_extents(PagedPool& pool, std::span<Arena* const> arenas, const Arena* borrower,
                          size_t granule_bytes) {
  IdleMap& idle = pool.idle;
  idle.begin_scan();
  int64_t visits = visits_of_packed(pool.extents.size());
  for (Arena* arena : arenas) {
    if (!arena->is_lending) continue;
    const bool is_borrowed = arena != borrower;
    for (SubArena& sub : arena->sub_arenas) {
      sub.ranges.visit_at_least(granule_bytes, [&](PagedBlock* block) {
        View& view = *block->view;
        if (view.is_plain) return FreeRanges::Next::kAny;
        view.planning.begin_scan(idle.round());
        visits += kVisitsPerRange;
        mark_slots_of(block, idle, is_borrowed);
        return FreeRanges::Next::kAny;
      });
    }
  }
  for (const uint32_t number : idle.detached()) {
    const Extent& extent = *pool.extents[number - 1];
    if (extent.is_releasing || !extent.arena->is_lending) continue;
    idle.set_idle(number, nullptr, extent.arena != borrower);
  }
  return visits;
}

}  // namespace ashlar::paged
