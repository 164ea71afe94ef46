// SPDX-License-Identifier: Apache-2.0
//
// The invariants of the paged engine, as code.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

Status broken(std::string what) { return Status::device_fault("validate", 0, std::move(what)); }

Status check_tiling(const View& view) {
  size_t offset = 0;
  const PagedBlock* before = nullptr;
  for (const PagedBlock* block = view.first; block != nullptr; block = block->next) {
    if (view.offset_of(*block) != offset) return broken(text("a gap before ", block->address));
    if (block->bytes == 0) return broken(text("an empty block at ", block->address));
    if (block->previous != before) return broken(text("a wrong link at ", block->address));
    if (block->arena != view.arena) return broken(text(block->address, " is in a foreign arena"));
    const bool could_merge = before != nullptr && block->is_in_ranges() && before->is_in_ranges();
    if (could_merge && !view.arena->pool.options.no_split) {
      return broken(text("neighbours at ", block->address, " were not merged"));
    }
    offset += block->bytes;
    before = block;
  }
  if (before != view.last) return broken(text("a wrong end of the view at ", view.reserved.begin));
  return offset == view.mapped_bytes ? Status() : broken("blocks do not tile their view");
}

// What is away is not at home; all else is.
Status check_homes(const View& view) {
  if (view.is_plain) return {};
  size_t end = 0;
  for (size_t i = 0; i < view.slots.size(); ++i) {
    if (view.slots[i].offset != end) return broken("slots do not tile their view");
    end = view.slots[i].end();
  }
  if (end != view.mapped_bytes) return broken("slots do not tile their view");
  size_t home_count = 0;
  size_t guest_count = 0;
  for (size_t i = 0; i < view.slots.size(); ++i) {
    const Slot& slot = view.slots[i];
    const bool is_home = slot.extent != nullptr && slot.extent->is_at_home_in(view, i);
    if (slot.has_guest && !is_home) return broken("a guest is not at home where it is one");
    home_count += is_home ? 1 : 0;
    guest_count += slot.has_guest ? 1 : 0;
  }
  if (home_count != view.home_count) return broken("the count of extents at home is off");
  if (guest_count != view.guest_count) return broken("the count of guests is off");
  for (const PagedBlock* block = view.first; block != nullptr; block = block->next) {
    const size_t begin = view.offset_of(*block);
    for (size_t i = view.slot_at(begin);
         i < view.slots.size() && view.slots[i].offset < begin + block->bytes; ++i) {
      const Slot& slot = view.slots[i];
      const bool is_home =
          slot.extent != nullptr && slot.extent->home == &view && slot.extent->home_slot == i;
      if (is_home == block->is_away()) {
        return broken(text("the memory at ", block->address, " is not where it should be"));
      }
      const bool is_slot = slot.offset == begin && slot.bytes == block->bytes;
      if (block->is_away() && !is_slot) return broken("what is away is not one slot");
      if (block->is_away() && slot.away != block) return broken("a slot does not know its block");
    }
  }
  return {};
}

// Every slot is known to its extent, and what is retired is in no use.
Status check_mappings(const View& view) {
  for (size_t i = 0; i < view.slots.size(); ++i) {
    const Slot& slot = view.slots[i];
    const auto is_here = [&](const Extent::Mapping& mapping) {
      return mapping.view == &view && mapping.slot == i;
    };
    if (slot.is_retired() && (slot.extent == nullptr || slot.extent->is_at_home_in(view, i))) {
      return broken(text("the mapping at ", view.at(slot.offset), " is retired and in use"));
    }
    if (slot.is_announced && !slot.is_retired()) return broken("a mapping goes and does not");
    if (slot.extent == nullptr) continue;
    const auto& mappings = slot.extent->mappings;
    if (std::count_if(mappings.begin(), mappings.end(), is_here) != 1) {
      return broken(text("an extent does not know that it is mapped at ", view.at(slot.offset)));
    }
    if (slot.bytes != slot.extent->bytes) return broken("an extent is mapped in part");
    if (slot.extent->home != nullptr &&
        slot.extent->is_at_home_in(view, i) !=
            view.arena->pool.idle.is_at_home(IdleMap::number_of(*slot.extent), view)) {
      return broken("plans look for an extent where it is not at home");
    }
  }
  return {};
}

}  // namespace

// Bounds on mappings and addresses are no invariants, since work in flight may hold back what is
// retired; what is counted to keep them is.
Status PagedEngine::check_crowd() const {
  Crowd crowd;
  Crowd retired;
  size_t listed_count = 0;
  for (const auto& [id, pool] : pools_) {
    for (const auto& extent : pool->extents) {
      crowd.mappings += extent->mappings.size();
      if (pool->options.never_remap && extent->mappings.size() > 1) {
        return broken("an extent of a pool that never remaps is mapped twice");
      }
    }
    for (const auto& view : pool->views) {
      if (view->is_plain) continue;
      if (Status mapped = check_mappings(*view); !mapped.ok()) return mapped;
      for (size_t i = 0; i < view->slots.size(); ++i) {
        if (packed(*view, i) != view->packed[i]) return broken("plans see a slot as it was");
      }
      crowd.address_bytes += view->reserved.bytes;
      if (view->is_retired) retired.address_bytes += view->reserved.bytes;
      for (const Slot& slot : view->slots) retired.mappings += slot.is_retired() ? 1 : 0;
    }
    for (const Retirement& retirement : pool->retired) {
      for (const Spare& spare : retirement.spare) {
        for (size_t i = spare.first; i < spare.end; ++i) {
          listed_count += spare.view->slots[i].retirement == retirement.serial ? 1 : 0;
        }
      }
    }
  }
  if (crowd.mappings != mapping_count_ || retired.mappings != retired_count_) {
    return broken("the count of mappings is off");
  }
  if (listed_count != retired_count_) return broken("a retired mapping would never be unmapped");
  if (crowd.address_bytes != address_bytes_ || retired.address_bytes != retired_address_bytes_) {
    return broken("the count of addresses is off");
  }
  return {};
}

Status PagedEngine::validate() const {
  MutexLock lock(mutex_);
  if (Status counted = check_crowd(); !counted.ok()) return counted;
  size_t held_bytes = 0;
  std::map<const Arena*, Counters> sums;
  for (const auto& [id, pool] : pools_) {
    AllArenas arenas(*pool);
    for (const auto& extent : pool->extents) {
      if (!extent->is_dropped) held_bytes += extent->bytes;
      for (const Extent::Mapping& mapping : extent->mappings) {
        if (mapping.view->slots[mapping.slot].extent != extent.get()) {
          return broken("an extent is not where it is mapped");
        }
      }
      if (pool->idle.has_home(*extent) != (extent->home != nullptr)) {
        return broken("plans do not know whether an extent has a home");
      }
      if (extent->home == nullptr) continue;
      if (extent->home->slots[extent->home_slot].extent != extent.get()) {
        return broken("an extent is not at home where it says");
      }
      if (extent->arena != extent->home->arena) return broken("an extent is in a foreign arena");
    }
    for (const auto& view : pool->views) {
      if (view->is_plain) held_bytes += view->reserved.bytes;
      if (Status tiled = check_tiling(*view); !tiled.ok()) return tiled;
      if (Status homes = check_homes(*view); !homes.ok()) return homes;
      for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
        if (!block->is_active()) continue;
        Counters& counters = sums[block->arena];
        (block->is_allocated() ? counters.risen : counters.pending)
            .add({1, static_cast<int64_t>(block->bytes),
                  static_cast<int64_t>(block->requested_bytes)});
      }
    }
    for (const auto& [stream, arena] : pool->arenas) {
      Counters counted;
      for (const Heap& heap : arena->heaps) {
        counted.risen.add(heap.counters.allocated());
        counted.pending.add(heap.counters.pending);
      }
      const Counters& sum = sums[arena.get()];
      if (!(sum.risen == counted.risen) || !(sum.pending == counted.pending)) {
        return broken(text("the counters of stream ", stream.value(), " are off"));
      }
    }
  }
  if (held_bytes != held_bytes_) return broken("held bytes are off");
  MutexLock counting(counting_mutex_);
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes.all.current);
  return reserved == held_bytes_ ? Status() : broken("reserved bytes are off");
}

}  // namespace ashlar::paged
