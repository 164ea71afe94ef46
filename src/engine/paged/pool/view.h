// SPDX-License-Identifier: Apache-2.0
//
// The three kinds of objects that the paged engine manages.
//
//   Extent       physical memory from one create call
//   View         a contiguous address range with extents mapped into its slots
//   PagedBlock   a piece of a view: allocated, pending, free, or detached (`kUnmapped`)
//
// An extent may be mapped in many views but is attached to at most one. Only the attached view
// hands out the extent's memory. The other mappings take no memory and are kept for reuse.
//
// Invariants:
//   sum of block bytes of a view == mapped_bytes, in address order, without gaps
//   sum of slot bytes of a view  == mapped_bytes
//   a slot whose extent is not attached to the view is covered by exactly one detached block
//
// Not thread safe. The engine's lock guards extents, and the addresses and slots of views. An
// arena's lock guards the blocks of its views.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "ashlar/pool.h"
#include "base/host_memory.h"
#include "engine/block.h"

namespace ashlar::paged {

class Arena;
struct PagedBlock;
struct View;

// A copy of an extent's contents in pinned host memory, made when its pool is paused.
struct HostBackup {
  void* memory = nullptr;
  AddressRange range{};  // the copied part: from the first to the last allocated byte
};

struct Extent {
  struct Mapping {
    View* view = nullptr;
    size_t slot = 0;
  };
  ExtentId id;
  size_t bytes = 0;
  size_t index = 0;               // position in `PagedPool::extents`
  Mapping origin{};               // the first mapping; `view` is null once that is unmapped
  View* attached_view = nullptr;  // null: detached, part of no view's blocks, and idle
  size_t attached_slot = 0;
  Arena* arena = nullptr;      // the arena whose stream last used the extent
  bool is_small = false;       // counted as memory of small blocks
  AddressRange traced{};       // the range last reported to trackers; empty if none
  uint64_t marker_round = 0;   // `Arena::marker_round` of the trim that set the extent aside, or 0
  uint64_t planner_round = 0;  // scratch of the planner
  bool is_releasing = false;   // being returned to the device; must not be used
  bool is_dropped = false;     // its pool is paused: no physical memory, and `id` is invalid
  HostBackup backup{};
  std::vector<Mapping> mappings;

  // The number of the extent in `IdleMap` and `PackedSlot`, where 0 means no extent.
  uint32_t number() const { return static_cast<uint32_t>(index + 1); }
  bool is_attached_to(const View& view, size_t slot) const {
    return attached_view == &view && attached_slot == slot;
  }
  // Whether `traced` is empty or is the range of one of the extent's mappings.
  bool is_traced_at_mapping() const;
  bool is_mapped_in(const View* view) const {
    return std::any_of(mappings.begin(), mappings.end(),
                       [view](const Mapping& each) { return each.view == view; });
  }
};

// Fills two cache lines. With thousands of blocks, the number of cache lines touched determines the
// cost of a request.
struct alignas(64) PagedBlock : Block {
  PagedBlock() { type = BlockType::kPaged; }

  Arena* arena = nullptr;
  View* view = nullptr;
  PagedBlock* previous = nullptr;  // neighbours in the view, in address order
  PagedBlock* next = nullptr;
  PagedBlock* list_previous = nullptr;  // neighbours in a free list
  PagedBlock* list_next = nullptr;
  bool is_small = false;  // whether its view is for small blocks
  uint32_t slot = 0;      // the slot that the block covers, while detached

  bool is_detached() const { return state == BlockState::kUnmapped; }
  // Returns whether the block is in `FreeRanges`, and not on a quick list.
  bool is_in_ranges() const { return state == BlockState::kFree; }
};

static_assert(sizeof(PagedBlock) == 128);

struct Slot {
  size_t offset = 0;
  size_t bytes = 0;
  Extent* extent = nullptr;         // null: the mapping has been removed
  bool is_mapped = true;            // false only while the pool is paused or changing
  bool is_accessible = true;        // false: some accessors lack access, so it must not be used
  bool is_unmap_announced = false;  // retired, and the unmapping is queued for observers
  uint64_t retirement = 0;          // serial of the slot's Retirement; 0: not retired
  uint64_t detached_at = 0;         // `ExtentMover::next_tick` of the last detach
  PagedBlock* detached_block = nullptr;  // the slot's block, while it is detached
  bool has_displaced = false;            // the attached extent was displaced when it was attached
  uint64_t mapped_ticks = 0;             // `ticks_now` at the time of mapping; unchanged by a pause

  size_t end() const { return offset + bytes; }
  bool is_retired() const { return retirement != 0; }
};

// The part of a slot that the planner reads. Plans scan the slots of most views while the CPU
// caches hold the program's own data, so the number of cache lines touched determines the cost of a
// plan.
struct PackedSlot {
  uint32_t extent : 31 = 0;    // number of the extent in `IdleMap`; 0 if none
  uint32_t is_usable : 1 = 0;  // the slot is mapped, accessible and not retired
  // The end of the slot, in granules. Constant, because hits read it without the engine's lock.
  uint32_t end = 0;

  friend bool operator==(const PackedSlot&, const PackedSlot&) = default;
};

// What plans record of a view.
struct ViewPlanning {
  uint32_t idle_count = 0;  // attached slots that a scan found idle; set by `mark_idle_extents`
  uint64_t round = 0;       // the `IdleMap::round` of the scan that set `idle_count`
  View* next_resting = nullptr;  // in `PlanningRecord::resting_views`

  // Resets the count if it belongs to an earlier scan.
  void begin_scan(uint64_t scan_round) {
    if (std::exchange(round, scan_round) != scan_round) idle_count = 0;
  }
  // Returns the count, or 0 if the scan has not visited the view.
  uint32_t idle_count_in_scan(uint64_t scan_round) const {
    return round == scan_round ? idle_count : 0;
  }
};

// The position of a view in a list of views.
struct QueueLinks {
  bool is_queued = false;
  View* before = nullptr;
  View* after = nullptr;
};

// The state of a view's retirement.
struct ViewRetirement {
  bool is_whole = false;     // all slots are retired; the addresses are freed with them
  uint32_t range_count = 0;  // ranges of the view in `PagedPool::retirements`
};

// The fields that searches of free ranges read come first, to touch few cache lines.
struct alignas(64) View {
  Arena* arena = nullptr;
  bool is_small = false;
  bool is_plain = false;         // the view is one allocation of the device or of a segment source
  uint32_t displaced_count = 0;  // slots with a displaced extent
  size_t granule_bytes = 1;      // the device's granule; slots end at multiples of it
  AddressRange reserved{};       // the view's addresses; if plain, the whole allocation
  size_t mapped_bytes = 0;       // size of the front part of `reserved` that the blocks tile
  std::vector<PackedSlot> packed;
  std::vector<uint32_t> slot_of_unit;  // the slot in which each unit begins
  uint32_t id = 0;                     // unique in its pool; never reused
  uint32_t attached_count = 0;         // slots whose extent is attached to the view
  ViewRetirement retirement{};
  ViewPlanning planning{};
  std::vector<Slot> slots;      // in order, without gaps; none in a plain view
  uint64_t last_placed_at = 0;  // `ExtentMover::next_tick` of the last placement by a miss
  std::shared_ptr<SegmentSource> source;  // null: the device
  StackId stack{};                        // call stack that created the view
  PagedBlock* first = nullptr;
  PagedBlock* last = nullptr;
  QueueLinks return_queue{};  // in `Arena::return_queue`

  size_t offset_of(const Block& block) const { return block.address - reserved.begin; }
  DeviceAddress at(size_t offset) const { return reserved.begin + offset; }
  AddressRange range_of(const Slot& slot) const { return {at(slot.offset), slot.bytes}; }
  const Slot& slot_of(const PagedBlock& detached) const { return slots[detached.slot]; }
  // Whether the extent, if it is attached to this view, could return to its origin without waiting
  // for another stream. REQUIRES: the engine's lock.
  bool is_displaced(const Extent& extent) const {
    const View* origin = extent.origin.view;
    if (origin == nullptr || origin == this || extent.is_releasing) return false;
    const Slot& slot = origin->slots[extent.origin.slot];
    return origin->arena == arena && origin->is_small == is_small && slot.is_accessible &&
           slot.is_mapped && !slot.is_retired();
  }
  // Returns log2 of the size of a unit: 2 MiB, the granule of current devices, or a larger granule.
  size_t unit_bytes_log2() const { return std::max<size_t>(22, std::bit_width(granule_bytes)) - 1; }
  size_t slot_begin(size_t slot) const { return slot == 0 ? 0 : slot_end(slot - 1); }
  size_t slot_end(size_t slot) const { return packed[slot].end * granule_bytes; }
  // Returns the slot that contains `offset`. Few slots are smaller than a unit, so the loop is
  // short. REQUIRES: offset < mapped_bytes, and the view is not plain.
  size_t slot_at(size_t offset) const {
    size_t slot = slot_of_unit[offset >> unit_bytes_log2()];
    while (slot_end(slot) <= offset) ++slot;
    return slot;
  }
  // Reserves capacity for `count` more slots that total `bytes`, so that adding them cannot fail.
  void reserve_slots(size_t count, size_t bytes) {
    reserve_amortized(slots, slots.size() + count);
    reserve_amortized(packed, packed.size() + count);
    reserve_amortized(slot_of_unit, ((mapped_bytes + bytes) >> unit_bytes_log2()) + 1);
  }
  void add_slot(const Slot& slot) {
    const auto number = static_cast<uint32_t>(slots.size());
    slots.push_back(slot);
    packed.push_back({0, 0, static_cast<uint32_t>(slot.end() / granule_bytes)});
    mapped_bytes += slot.bytes;
    while (slot_of_unit.size() << unit_bytes_log2() < mapped_bytes) slot_of_unit.push_back(number);
  }
  // Copies the slot's state into the packed array that plans read. Call after every change of the
  // slot.
  void repack(size_t slot) {
    const PackedSlot now = packed_state(slot);
    packed[slot].extent = now.extent;
    packed[slot].is_usable = now.is_usable;
  }
  PackedSlot packed_state(size_t index) const {
    const Slot& slot = slots[index];
    const bool is_usable = slot.extent != nullptr && slot.is_accessible && !slot.is_retired();
    const uint32_t number = slot.extent != nullptr ? slot.extent->number() : 0;
    return {number & INT32_MAX, is_usable, static_cast<uint32_t>(slot.end() / granule_bytes)};
  }
  // REQUIRES: the lock of the view's arena.
  bool has_active_block() const {
    const PagedBlock* block = first;
    while (block != nullptr && !block->is_active()) block = block->next;
    return block != nullptr;
  }
  bool has_extents() const {
    return std::any_of(slots.begin(), slots.end(),
                       [](const Slot& slot) { return slot.extent != nullptr; });
  }
  // Whether the addresses have been freed, so that the view is about to be destroyed.
  bool is_released() const { return reserved.bytes == 0; }
};

inline bool Extent::is_traced_at_mapping() const {
  return traced.bytes == 0 ||
         std::any_of(mappings.begin(), mappings.end(), [this](const Mapping& mapping) {
           return mapping.view->range_of(mapping.view->slots[mapping.slot]) == traced;
         });
}

// Views in the order of their addition. Intrusive, because a free adds views and must not fail.
// Guarded by the lock of the views' arena.
class DisplacedViews {
 public:
  bool empty() const { return last_ == nullptr; }
  // REQUIRES: the view is in no such list.
  void add(View& view) noexcept {
    view.return_queue = {true, last_, nullptr};
    if (last_ != nullptr) last_->return_queue.after = &view;
    last_ = &view;
  }
  // Removes the view if it is in the list.
  void remove(View& view) noexcept {
    const QueueLinks links = std::exchange(view.return_queue, {});
    if (!links.is_queued) return;
    if (links.before != nullptr) links.before->return_queue.after = links.after;
    (links.after != nullptr ? links.after->return_queue.before : last_) = links.before;
  }
  // Removes and returns the view that was added last.
  View& take_last() noexcept {
    View& view = *last_;
    remove(view);
    return view;
  }

 private:
  View* last_ = nullptr;
};

// Mappings of one view whose extents are not attached to the view: in the consecutive slots [first,
// end), or in the whole view.
struct UnusedMappings {
  View* view = nullptr;
  size_t first = 0;
  size_t end = 0;
  size_t count = 0;            // number of these mappings
  uint64_t detached_at = 0;    // the latest `Slot::detached_at` of their slots
  bool is_whole_view = false;  // the view has no other mappings

  DeviceAddress begin() const { return view->at(view->slots[first].offset); }
};

// Retired mappings, which are unmapped once all of the events are done.
struct Retirement {
  uint64_t serial = 0;
  uint64_t announcement = 0;  // number of the announcement to observers; 0: not announced yet
  std::vector<EventId> events;
  std::vector<UnusedMappings> mappings;
};

}  // namespace ashlar::paged
