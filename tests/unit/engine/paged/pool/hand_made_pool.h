// SPDX-License-Identifier: Apache-2.0
//
// A pool built by hand, without a device. It has views whose extents are all attached and free.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/units.h"
#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {

class HandMadePool {
 public:
  static constexpr size_t kGranuleBytes = 2 * kMiB;

  explicit HandMadePool(PoolOptions options = {}) : pool({}, std::move(options), false) {}

  // Adds an arena that lends its idle memory.
  Arena& add_arena(StreamId stream) {
    Arena& arena = pool.add_arena(stream, pool.arenas.size() + 1, addresses_);
    arena.is_lending = true;
    return arena;
  }
  // Adds a view with attached, free extents of these sizes, which are multiples of the granule.
  View& add_view(Arena& arena, const std::vector<size_t>& extent_sizes, bool is_small = false) {
    View& view = pool.add_view(pool.prepare_view());
    view.reserved = {DeviceAddress(view.id * kGiB), kGiB};
    view.arena = &arena;
    view.is_small = is_small;
    view.granule_bytes = kGranuleBytes;
    for (const size_t bytes : extent_sizes) map(add_extent(arena, bytes, is_small), view);
    if (extent_sizes.empty()) return view;
    for (size_t i = 0; i < view.slots.size(); ++i) attach(view, i);
    reserve_for(view);
    arena.add_free(arena.insert_block(view, {view.reserved.begin, view.mapped_bytes}, nullptr));
    return view;
  }
  Extent& add_extent(Arena& arena, size_t bytes, bool is_small = false) {
    pool.idle.reserve(pool.extents.size() + 1);
    pool.extents.push_back(std::make_unique<Extent>());
    pool.idle.add();
    Extent& extent = *pool.extents.back();
    extent.bytes = bytes;
    extent.index = pool.extents.size() - 1;
    extent.arena = &arena;
    extent.is_small = is_small;
    return extent;
  }
  // Appends a slot for the extent to the view without attaching the extent.
  void map(Extent& extent, View& view) {
    extent.mappings.push_back({&view, view.slots.size()});
    if (extent.origin.view == nullptr) extent.origin = extent.mappings.back();
    view.add_slot({view.mapped_bytes, extent.bytes, &extent});
    view.repack(view.slots.size() - 1);
  }
  // Reserves blocks for the slots of a view that has none reserved, and for the view itself, and
  // lists for its free ranges.
  static void reserve_for(View& view) {
    view.arena->reserve_blocks(Arena::kBlocksPerSlot * view.slots.size());
    view.arena->fill_reserve(Arena::kBlocksPerPlacement);
    view.arena->reserve_ranges(view.is_small, view.mapped_bytes);
  }
  // Takes a block out of the arena's free ranges and marks it as allocated.
  static PagedBlock* allocate(Arena& arena, size_t bytes) {
    constexpr double kAnyWaste = 1e9;
    PagedBlock* block = arena.take(bytes, kAnyWaste);
    EXPECT_NE(block, nullptr);
    if (block != nullptr) block->state = BlockState::kAllocated;
    return block;
  }

  PagedPool pool;

 private:
  void attach(View& view, size_t slot) {
    Extent& extent = *view.slots[slot].extent;
    extent.attached_view = &view;
    extent.attached_slot = slot;
    ++view.attached_count;
    pool.idle.set_attached_view(extent, view.id);
  }

  BlockTable addresses_;
};

}  // namespace ashlar::paged
