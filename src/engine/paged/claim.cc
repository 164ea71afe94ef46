// SPDX-License-Identifier: Apache-2.0
//
// Taking memory from where it lies idle to where it is wanted. A claim belongs to one request from
// the moment the arenas are unlocked: driver calls come in between, and whatever fails is given up
// such that the memory stays idle and in order.
#include <utility>

#include "base/check.h"
#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {

Claim PagedEngine::claim(const Plan& plan, const Search& search) {
  Claim claim;
  claim.view = plan.view;
  claim.offset = plan.offset;
  claim.pieces = plan.pieces;
  if (plan.from != nullptr) {
    View& view = *plan.view;
    PagedBlock* from = plan.from;
    if (view.arena != search.arena) {
      move_view(view, *search.arena);
      from = view.slots[view.slot_at(plan.offset)].away;
    }
    const size_t end = std::min(plan.offset + search.bytes, view.mapped_bytes);
    claim_range(view, from, {view.at(plan.offset), end - plan.offset}, claim);
  }
  for (Extent* piece : claim.pieces) {
    if (piece->home != nullptr) carve(*piece);
    if (piece->arena != search.arena) claim.lenders.insert(piece->arena);
  }
  return claim;
}

// The blocks from `from` on are free or away as far as the range goes. What is away comes home by
// whole slots, and stays part of the claim: nobody may use it before its lenders' work is in order.
void PagedEngine::claim_range(View& view, PagedBlock* from, AddressRange range, Claim& claim) {
  Arena& arena = *view.arena;
  const size_t begin = range.begin - view.reserved.begin;
  const size_t end = begin + range.bytes;
  for (PagedBlock* block = from; block != nullptr && view.offset_of(*block) < end;) {
    const size_t block_begin = view.offset_of(*block);
    const size_t block_end = block_begin + block->bytes;
    size_t cut_begin = std::max(begin, block_begin);
    size_t cut_end = std::min(end, block_end);
    if (block->is_away()) {
      const size_t first = view.slot_at(cut_begin);
      const size_t last = view.slot_at(cut_end - 1);
      for (size_t i = first; i <= last; ++i) {
        Extent& extent = *view.slots[i].extent;
        if (extent.home != nullptr) carve(extent);
        if (extent.arena != &arena) claim.lenders.insert(extent.arena);
        come_home(extent, view, i);
      }
      cut_begin = view.slots[first].offset;
      cut_end = view.slots[last].end();
    } else {
      arena.erase_free(block);
    }
    // Cut out first, and free what is left afterwards, which merges.
    const bool is_away = block->is_away();
    PagedBlock* wanted = cut_begin > block_begin ? arena.split(block, cut_begin) : block;
    PagedBlock* rest = cut_end < block_end ? arena.split(wanted, cut_end) : nullptr;
    wanted->state = BlockState::kPending;
    if (!is_away && wanted != block) arena.add_free(block);
    if (!is_away && rest != nullptr) arena.add_free(rest);
    PagedBlock* next = wanted->next;
    if (claim.block == nullptr) {
      claim.block = wanted;
    } else {
      claim.block->bytes += wanted->bytes;
      arena.remove_block(wanted);
    }
    block = next;
  }
}

void PagedEngine::carve(Extent& extent) {
  View& view = *extent.home;
  Arena& arena = *view.arena;
  const Slot& slot = view.slots[extent.home_slot];
  IdleMap& idle = arena.pool.idle;
  PagedBlock* block = idle.block_of(IdleMap::number_of(extent));
  ASHLAR_DCHECK(block != nullptr && block->is_in_ranges());
  arena.erase_free(block);
  const size_t begin = view.offset_of(*block);
  const size_t end = begin + block->bytes;
  PagedBlock* wanted = block;
  if (slot.offset > begin) {
    wanted = arena.split(block, slot.offset);
    arena.heap(view.is_small).ranges.insert(block);
  }
  if (slot.end() < end) {
    PagedBlock* rest = arena.split(wanted, slot.end());
    arena.heap(view.is_small).ranges.insert(rest);
    for (size_t i = extent.home_slot + 1; i < view.slots.size() && view.slots[i].end() <= end;
         ++i) {
      if (const Extent* next = view.slots[i].extent; next != nullptr) {
        idle.set_block(IdleMap::number_of(*next), rest);
      }
    }
  }
  arena.add_away(wanted);
  leave_home(extent);
}

// Memory that was mapped into another view because nothing better was left goes back to where it
// was at first, once it is free: lying side by side again it serves large blocks without being
// mapped, and where to depends on what is in use, not on what was used before, so that whoever does
// the same again gets the same places.
void PagedEngine::bring_back(Arena& arena) {
  while (!arena.hosts.empty()) {
    View& host = *arena.hosts.back();
    arena.hosts.pop_back();
    host.in_block_table = false;
    std::vector<Extent*> guests;
    for (PagedBlock *block = host.first, *next = nullptr; block != nullptr; block = next) {
      next = block->next;
      if (block->is_in_ranges()) send_guests_off(block, guests);
    }
    for (Extent* guest : guests) {
      View& view = *guest->origin.view;
      const Slot& slot = view.slots[guest->origin.slot];
      PagedBlock* block = slot.away;
      come_home(*guest, view, guest->origin.slot);
      block->state = BlockState::kPending;
      show(*guest, {view.at(slot.offset), slot.bytes}, arena);
      arena.add_free(block);
    }
  }
}

// Whole extents inside of a free block that belong elsewhere: their slots are away afterwards.
void PagedEngine::send_guests_off(PagedBlock* block, std::vector<Extent*>& guests) {
  View& view = *block->view;
  Arena& arena = *view.arena;
  FreeRanges& ranges = arena.heap(view.is_small).ranges;
  const size_t begin = view.offset_of(*block);
  const size_t end = begin + block->bytes;
  ranges.erase(block);
  PagedBlock* rest = block;
  for (size_t i = view.slot_at(begin); rest != nullptr && i < view.slots.size(); ++i) {
    const Slot& slot = view.slots[i];
    if (slot.end() > end) break;
    if (slot.offset < begin || !view.is_guest(*slot.extent)) continue;
    PagedBlock* leaving = rest;
    if (slot.offset > view.offset_of(*rest)) {
      leaving = arena.split(rest, slot.offset);
      ranges.insert(rest);
    }
    rest = slot.end() < end ? arena.split(leaving, slot.end()) : nullptr;
    arena.add_away(leaving);
    leave_home(*slot.extent);
    guests.push_back(slot.extent);
  }
  if (rest != nullptr) ranges.insert(rest);
}

void PagedEngine::leave_home(Extent& extent) {
  Slot& left = extent.home->slots[extent.home_slot];
  left.left_at = ++move_count_;
  if (std::exchange(left.has_guest, false)) --extent.home->guest_count;
  extent.home->arena->pool.idle.set_home(extent, 0);
  --extent.home->home_count;
  extent.home = nullptr;
}

void PagedEngine::come_home(Extent& extent, View& view, size_t slot) {
  extent.home = &view;
  extent.home_slot = slot;
  // `lean` maps at any price, and holds less where memory stays where it was used last.
  const bool may_stay = options_.policy == PagedPolicy::kLean;
  view.slots[slot].has_guest = !may_stay && view.is_guest(extent);
  if (view.slots[slot].has_guest) ++view.guest_count;
  view.arena->pool.idle.set_home(extent, view.id);
  ++view.home_count;
  view.arena->pool.idle.set_active(extent);
  extent.marked_round = 0;
}

// REQUIRES: it has slots, none of them in use. All that is at home there leaves, so that none of it
// is used on the new stream before the old one's work is in order.
void PagedEngine::move_view(View& view, Arena& arena) {
  Arena& before = *view.arena;
  for (PagedBlock* block = view.first; block != nullptr; block = block->next) {
    if (!block->is_away()) before.erase_free(block);
  }
  for (size_t i = 0; i < view.slots.size(); ++i) {
    Extent* extent = view.slots[i].extent;
    if (extent != nullptr && extent->home == &view) leave_home(*extent);
  }
  before.forget_host(view);
  while (view.first->next != nullptr) before.remove_block(view.first->next);
  view.first->bytes = view.mapped_bytes;
  view.first->arena = &arena;
  view.first->stream = arena.stream;
  view.arena = &arena;
  arena.add_away(view.first);
}

// An event cannot be recorded on a stream that is gone: its memory waits for somebody to wait for
// the whole device.
Status PagedEngine::hand_over(const std::set<Arena*>& lenders, Arena& borrower) {
  if (lenders.empty()) return {};
  if (!handover_) {
    Result<EventId> event = device_.create_event();
    if (!event.ok()) return event.status();
    handover_ = *event;
  }
  for (Arena* lender : lenders) {
    Status ordered = device_.record_event(*handover_, lender->stream);
    if (ordered.ok()) lender->is_back();
    if (ordered.is(StatusKind::kInvalidArgument)) {
      lender->is_gone = true;
      if (lender->quiet_uses) continue;  // what is lent was quiet when it was claimed
      return Status::out_of_memory("memory of a stream that is gone must be waited for");
    }
    // Whoever waits for an event that became part of a capture becomes part of it, too.
    if (ordered.ok() && waiting_.is_capturing({&device_, lender->stream})) {
      return Status::out_of_memory("memory of a stream that has begun to capture stays there");
    }
    if (ordered.ok()) ordered = device_.wait_event(borrower.stream, *handover_);
    if (!ordered.ok()) return ordered;
  }
  return {};
}

void PagedEngine::show_at_home(const Claim& claim) {
  View& view = *claim.view;
  view.claimed_at = ++move_count_;
  Arena& arena = *view.arena;
  if (view.is_plain) return;
  const size_t begin = view.offset_of(*claim.block);
  const size_t end = begin + claim.block->bytes;
  for (size_t i = view.slot_at(begin); i < view.slots.size() && view.slots[i].offset < end; ++i) {
    Extent& extent = *view.slots[i].extent;
    const AddressRange range{view.at(view.slots[i].offset), extent.bytes};
    if (extent.shown == range && extent.arena == &arena) continue;
    count_lent(extent, arena, view.is_small);
    show(extent, range, arena);
    extent.arena = &arena;
    extent.is_small = view.is_small;
  }
}

// Trackers believe it to be there from now on.
void PagedEngine::show(Extent& extent, AddressRange range, const Arena& arena) {
  if (extent.shown.bytes != 0) {
    note_memory(TraceAction::kSegmentUnmap, *extent.arena, extent.shown);
  }
  note_memory(TraceAction::kSegmentMap, arena, range);
  extent.shown = range;
}

Block* PagedEngine::hand_out_of(Claim& claim, size_t bytes, const AllocationRequest& request) {
  View& view = *claim.view;
  Arena& arena = *view.arena;
  PagedBlock* block = claim.block;
  const size_t begin = view.offset_of(*block);
  const size_t end = begin + block->bytes;
  if (claim.offset > begin) {
    PagedBlock* before = block;
    block = arena.split(block, claim.offset);
    arena.add_free(before);
  }
  if (claim.offset + bytes < end) arena.add_free(arena.split(block, claim.offset + bytes));
  hand_out(arena, block, request);
  return block;
}

// REQUIRES: everything in the claim is mapped, and in order.
Block* PagedEngine::finish_claim(Claim& claim, const Search& search) {
  show_at_home(claim);
  BiasedLock lock(search.arena->lock);
  return hand_out_of(claim, search.bytes, search.request);
}

// Whole extents become idle, without a home; what is left at the ends was free before.
void PagedEngine::give_up(Claim& claim) {
  if (claim.block == nullptr) return;
  View& view = *claim.view;
  Arena& arena = *view.arena;
  BiasedLock lock(arena.lock);
  PagedBlock* block = claim.block;
  const size_t begin = view.offset_of(*block);
  const size_t end = begin + block->bytes;
  size_t whole_begin = end;
  size_t whole_end = end;
  for (size_t i = view.slot_at(begin); i < view.slots.size() && view.slots[i].end() <= end; ++i) {
    if (view.slots[i].offset < begin) continue;
    whole_begin = std::min(whole_begin, view.slots[i].offset);
    whole_end = view.slots[i].end();
    leave_home(*view.slots[i].extent);
  }
  if (whole_begin < whole_end) {
    PagedBlock* after = whole_end < end ? arena.split(block, whole_end) : nullptr;
    PagedBlock* middle = whole_begin > begin ? arena.split(block, whole_begin) : block;
    if (after != nullptr) arena.add_free(after);
    if (middle != block) arena.add_free(block);
    arena.add_away(middle);
  } else {
    arena.add_free(block);
  }
  claim.block = nullptr;
}

}  // namespace ashlar::paged
