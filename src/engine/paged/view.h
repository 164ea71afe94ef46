// SPDX-License-Identifier: Apache-2.0
//
// The three things the paged engine is made of.
//
//   Extent       physical memory from one create call
//   View         a contiguous range of addresses, mapped over extents slot by slot
//   PagedBlock   a part of a view: handed out, free, or `kUnmapped`, which here means that its
//                memory serves another view at the moment
//
// An extent may be mapped in many views, but is at home in at most one: only there its memory is
// handed out. Its other mappings cost nothing and wait to be used again. The blocks of a view tile
// it; what is away is one block for each slot.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "ashlar/pool.h"
#include "engine/block.h"

namespace ashlar::paged {

class Arena;
struct PagedBlock;
struct View;

// What a paused pool keeps of an extent's contents, in pinned memory of the host.
struct Backup {
  void* memory = nullptr;
  AddressRange range{};  // where it belongs: all that is in use, where the extent is at home
};

struct Extent {
  struct Mapping {
    View* view = nullptr;
    size_t slot = 0;
  };
  ExtentId id;
  size_t bytes = 0;
  size_t position = 0;        // in its pool's list
  Mapping origin{};           // its first one, where it goes back to; no view: that is unmapped
  View* home = nullptr;       // null: its memory is idle, and part of no view's blocks
  size_t home_slot = 0;       // in `home`
  Arena* arena = nullptr;     // whose stream used it last
  bool is_small = false;      // counted with the small ones
  AddressRange shown{};       // where trackers believe it to be
  uint64_t marked_round = 0;  // of its arena's markers: set apart by a trim before that; 0: not
  uint64_t seen_round = 0;    // of plans: seen in the view that one would grow
  bool is_leaving = false;    // on its way to the device: nobody may use it any more
  bool is_dropped = false;    // while its pool is paused: it has no memory, and `id` says nothing
  Backup backup{};            // of a paused pool
  std::vector<Mapping> mappings;

  bool is_at_home_in(const View& view, size_t slot) const {
    return home == &view && home_slot == slot;
  }
  bool is_mapped_in(const View* view) const {
    return std::any_of(mappings.begin(), mappings.end(),
                       [view](const Mapping& each) { return each.view == view; });
  }
};

// Two lines of the cache: with thousands of blocks, how many of them a request touches is what it
// costs.
struct alignas(64) PagedBlock : Block {
  Arena* arena = nullptr;
  View* view = nullptr;
  PagedBlock* previous = nullptr;  // neighbours in the view, by address
  PagedBlock* next = nullptr;
  PagedBlock* list_previous = nullptr;  // in a list of free blocks
  PagedBlock* list_next = nullptr;
  bool is_small = false;  // as its view
  uint32_t slot = 0;      // while it is away: the one that it is

  bool is_away() const { return state == BlockState::kUnmapped; }
  bool is_in_ranges() const { return state == BlockState::kFree; }
};

static_assert(sizeof(PagedBlock) == 128);

struct Slot {
  size_t offset = 0;
  size_t bytes = 0;
  Extent* extent = nullptr;    // null: given back to the device
  bool is_mapped = true;       // both are false only while the pool is paused, or in between
  bool is_open = true;         // to all who have access; if not, of no use but to be unmapped
  bool is_announced = false;   // it is retired, and observers hear or have heard that it goes
  uint64_t retirement = 0;     // nobody may use it any more: it is unmapped with that one
  uint64_t left_at = 0;        // when its memory last went elsewhere, as the engine counts
  PagedBlock* away = nullptr;  // its block, while its memory is elsewhere
  bool has_guest = false;      // its memory, at home here, belonged elsewhere when it came
  uint64_t mapped_ticks = 0;   // when it was mapped, by ticks_now; a pause does not count
  size_t end() const { return offset + bytes; }
  bool is_retired() const { return retirement != 0; }
};

// Room for so many in all, so that adding them cannot fail; twice as much, or each would move all.
template <typename Each>
void make_room(std::vector<Each>& list, size_t count) {
  if (list.capacity() < count) list.reserve(2 * count);
}

// What a plan asks of a slot. It looks at those of most views, and by then a program has its own
// data in the caches: how many lines it touches is what it costs.
struct PackedSlot {
  uint32_t extent : 31 = 0;    // as IdleMap counts them; 0: it is gone
  uint32_t is_usable : 1 = 0;  // by whoever has the addresses
  uint32_t end = 0;            // in granules of the device. Hits look at it, so it never changes

  friend bool operator==(const PackedSlot&, const PackedSlot&) = default;
};

// What every request for a large block asks of some views comes first, and together.
struct alignas(64) View {
  Arena* arena = nullptr;
  bool is_small = false;
  bool is_plain = false;        // one allocation of the device, or of a source
  bool in_block_table = false;  // among its arena's views to be looked at for that
  bool is_retired = false;      // all its slots are, and its addresses go with them
  uint32_t guest_count = 0;     // of slots with a guest
  size_t granule_bytes = 1;     // of the device: slots end at multiples of it
  AddressRange reserved{};      // of a plain view: all that the device, or the source, gave
  size_t mapped_bytes = 0;      // from the beginning
  std::vector<PackedSlot> packed;
  std::vector<uint32_t> slot_of_unit;  // the one that each unit of addresses begins in
  uint32_t id = 0;                     // in its pool; no other view ever has it
  uint32_t home_count = 0;             // of slots whose extent is at home here
  uint32_t idle_count = 0;             // of these, whatever no block uses in the plan of that round
  uint64_t idle_round = 0;
  std::vector<Slot> slots;                // in order, without gaps; none in a plain view
  uint64_t claimed_at = 0;                // when a miss last used it, as the engine counts
  std::shared_ptr<SegmentSource> source;  // null: the device
  StackId stack{};                        // of whoever made the device give its memory
  PagedBlock* first = nullptr;
  PagedBlock* last = nullptr;

  size_t offset_of(const Block& block) const { return block.address - reserved.begin; }
  DeviceAddress at(size_t offset) const { return reserved.begin + offset; }
  const Slot& slot_of(const PagedBlock& away) const { return slots[away.slot]; }
  // It is at home here, and could go back to where it belongs at once: no other stream has to be
  // waited for. Needs the engine's lock.
  bool is_guest(const Extent& extent) const {
    const View* origin = extent.origin.view;
    if (origin == nullptr || origin == this || extent.is_leaving) return false;
    const Slot& slot = origin->slots[extent.origin.slot];
    return origin->arena == arena && origin->is_small == is_small && slot.is_open &&
           slot.is_mapped && !slot.is_retired();
  }
  size_t slot_begin(size_t slot) const { return slot == 0 ? 0 : slot_end(slot - 1); }
  size_t slot_end(size_t slot) const { return packed[slot].end * granule_bytes; }
  // Hardly any slot is smaller than a unit. REQUIRES: offset < mapped_bytes, not plain.
  size_t slot_at(size_t offset) const {
    size_t slot = slot_of_unit[offset >> kUnitBits];
    while (slot_end(slot) <= offset) ++slot;
    return slot;
  }
  // Before so many slots with so many bytes are added, which cannot fail then.
  void make_room_for(size_t count, size_t bytes) {
    make_room(slots, slots.size() + count);
    make_room(packed, packed.size() + count);
    make_room(slot_of_unit, ((mapped_bytes + bytes) >> kUnitBits) + 1);
  }
  void add_slot(const Slot& slot) {
    const auto number = static_cast<uint32_t>(slots.size());
    slots.push_back(slot);
    packed.push_back({0, 0, static_cast<uint32_t>(slot.end() / granule_bytes)});
    mapped_bytes += slot.bytes;
    while (slot_of_unit.size() << kUnitBits < mapped_bytes) slot_of_unit.push_back(number);
  }

  static constexpr int kUnitBits = 21;
};

// Slots of a view whose memory is not at home there: all of a view's, or some in a row.
struct Spare {
  View* view = nullptr;
  size_t first = 0;
  size_t end = 0;
  size_t count = 0;
  uint64_t left_at = 0;   // the latest of theirs
  bool is_whole = false;  // the view has nothing else

  DeviceAddress begin() const { return view->at(view->slots[first].offset); }
};

// Mappings that are unmapped once the work before these events is done.
struct Retirement {
  uint64_t serial = 0;
  uint64_t announcement = 0;  // when observers were to be told, as the engine counts; 0: not yet
  std::vector<EventId> events;
  std::vector<Spare> spare;
};

}  // namespace ashlar::paged
