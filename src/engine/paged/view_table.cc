// SPDX-License-Identifier: Apache-2.0
//
// Reserves addresses, maps extents, and counts addresses and mappings.
#include "engine/paged/view_table.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "base/align.h"
#include "base/host_memory.h"
#include "base/ticks.h"

namespace ashlar::paged {
namespace {

// The limit on reserved addresses, as a multiple of the device's memory. The recorded runs use up
// to 19 times that memory; a 47-bit address space is more than 900 times the memory of an H200.
constexpr size_t kMaxAddressSpaceFactor = 32;

// Unless addresses are scarce, a stream's first view of large blocks reserves addresses for at
// least a quarter of the device's memory, any other view for a sixteenth. Halving or doubling these
// changes no recorded run.
constexpr size_t kFirstViewDivisor = 4;
constexpr size_t kOtherViewDivisor = 16;

}  // namespace

size_t ViewTable::max_address_bytes() const {
  return kMaxAddressSpaceFactor * config_.capacity_bytes;
}

Result<View*> ViewTable::create(SlowPathRequest& request, size_t bytes) {
  const std::vector<View*>& views = request.pool->candidates.views();
  const bool is_first = std::none_of(views.begin(), views.end(), [&](const View* view) {
    return view->arena == request.arena && view->is_small == request.is_small;
  });
  const size_t granule = config_.granule_bytes;
  const size_t growth = config_.sizing.max_growth_bytes(request.block_bytes, request.is_small);
  const size_t room = config_.capacity_bytes /
                      (is_first && !request.is_small ? kFirstViewDivisor : kOtherViewDivisor);
  const size_t min_bytes = round_up(std::max(growth, bytes), granule);
  const size_t growable_bytes = round_up(std::max(room, 2 * bytes), granule);
  const bool is_scarce = usage_.address_bytes + growable_bytes > max_address_bytes();
  size_t reserved_bytes = is_scarce ? min_bytes : std::max(min_bytes, growable_bytes);
  PagedPool& pool = *request.pool;
  std::unique_ptr<View> prepared = pool.prepare_view();
  ScopeGuard undo([&] { pool.discard_view(std::move(prepared)); });
  Result<DeviceAddress> address = config_.device.reserve(reserved_bytes);
  if (!address.ok() && address.status().is_out_of_memory() && reserved_bytes > min_bytes) {
    reserved_bytes = min_bytes;
    address = config_.device.reserve(reserved_bytes);
  }
  request.lacks_mappings = !address.ok() && address.status().is_out_of_memory();
  if (!address.ok()) return address.status();
  undo.dismiss();
  usage_.address_bytes += reserved_bytes;
  View& view = pool.add_view(std::move(prepared));
  view.reserved = {*address, reserved_bytes};
  view.arena = request.arena;
  view.is_small = request.is_small;
  view.granule_bytes = granule;
  view.stack = request.request.stack;
  return &view;
}

bool ViewTable::release(View& view) noexcept {
  if (!free_addresses(view)) return false;
  PagedPool& pool = view.arena->pool;
  if (view.retirement.range_count != 0) {
    for (Retirement& retirement : pool.retirements) {
      std::erase_if(retirement.mappings,
                    [&](const UnusedMappings& unused) { return unused.view == &view; });
    }
  }
  pool.erase_view(view);
  return true;
}

// Frees the addresses, blocks and reserves of the view. The caller destroys the view.
bool ViewTable::free_addresses(View& view) noexcept {
  const bool is_freed = catch_bad_alloc([&]() ASHLAR_REQUIRES(engine_lock) {
    Status freed = config_.device.free_addresses(view.reserved);
    const bool is_ok = freed.ok();
    if (!is_ok) error_.record(std::move(freed));
    return is_ok;
  });
  if (!is_freed) return false;
  {
    BiasedLock lock(view.arena->lock);
    view.arena->unqueue_return(view);
    while (view.first != nullptr) view.arena->remove_block(view.first);
    view.arena->unreserve_blocks(Arena::kBlocksPerSlot * view.slots.size());
  }
  usage_.address_bytes -= view.reserved.bytes;
  unretire_view(view);
  view.reserved = {};
  return true;
}

// Takes time in proportion to the number of views: removes all released views from each list in one
// pass.
void ViewTable::release_empty(PagedPool& pool) noexcept {
  for (const auto& view : pool.views) {
    if (!view->is_plain && !view->has_extents()) free_addresses(*view);
  }
  for (Retirement& retirement : pool.retirements) {
    std::erase_if(retirement.mappings,
                  [](const UnusedMappings& unused) { return unused.view->is_released(); });
  }
  pool.erase_released_views();
}

// Allocates all host memory before the first device call.
Result<PagedBlock*> ViewTable::map_at_end(View& view, const std::vector<Extent*>& extents,
                                          SlowPathRequest& request) {
  const RemapObservers::Reservation notices = observers_.reserve(extents.size());
  reserve_slots(view, extents);
  const uint64_t mapped_ticks = ticks_now();
  size_t mapped_count = 0;
  Status status;
  std::exception_ptr exhausted;  // of host memory
  try {
    status = map_extents(view, extents, mapped_count, request);
  } catch (const std::bad_alloc&) {
    exhausted = std::current_exception();
  }
  const bool is_usable = !exhausted && status.ok();
  AddressRange added{view.at(view.mapped_bytes), 0};
  for (size_t i = 0; i < mapped_count; ++i) added.bytes += extents[i]->bytes;
  if (!is_usable && mapped_count > 0 && try_unmap(added)) mapped_count = 0;

  Arena& arena = *view.arena;
  BiasedLock lock(arena.lock);
  arena.unreserve_blocks(Arena::kBlocksPerSlot * (extents.size() - mapped_count));
  for (size_t i = 0; i < mapped_count; ++i) {
    Slot slot{view.mapped_bytes, extents[i]->bytes, extents[i]};
    slot.is_accessible = is_usable;
    slot.mapped_ticks = mapped_ticks;
    add_slot(view, *extents[i], slot);
  }
  PagedBlock* block = mapped_count > 0 ? arena.insert_block(view, added, nullptr) : nullptr;
  if (!is_usable && block != nullptr) arena.add_detached(block);
  if (exhausted) std::rethrow_exception(exhausted);
  if (!status.ok()) return status;
  return block;
}

void ViewTable::reserve_slots(View& view, const std::vector<Extent*>& extents) {
  size_t bytes = 0;
  for (Extent* extent : extents) {
    reserve_amortized(extent->mappings, extent->mappings.size() + 1);
    bytes += extent->bytes;
  }
  BiasedLock lock(view.arena->lock);
  view.reserve_slots(extents.size(), bytes);
  view.arena->reserve_ranges(view.is_small, view.mapped_bytes + bytes);
  view.arena->reserve_blocks(Arena::kBlocksPerSlot * extents.size());
}

// Adds a slot for an extent that was mapped at the end of the view. Attaches the extent if the slot
// is accessible. REQUIRES: the lock of the view's arena.
void ViewTable::add_slot(View& view, Extent& extent, const Slot& slot) noexcept {
  const size_t index = view.slots.size();
  extent.mappings.push_back({&view, index});
  if (extent.origin.view == nullptr) extent.origin = extent.mappings.back();
  ++usage_.mappings;
  has_mapped_ = true;
  view.add_slot(slot);
  view.repack(index);
  if (slot.is_accessible) mover_.attach(extent, view, index);
  observers_.queue_mapped(view.range_of(slot));
}

// Maps the extents one after another, counts them in `mapped_count`, and grants access.
Status ViewTable::map_extents(const View& view, const std::vector<Extent*>& extents,
                              size_t& mapped_count, SlowPathRequest& request) {
  AddressRange range{view.at(view.mapped_bytes), 0};
  for (const Extent* extent : extents) {
    Status mapped = config_.device.map(range.end(), extent->id);
    request.lacks_mappings = mapped.is_out_of_memory();
    if (!mapped.ok()) return mapped;
    ++mapped_count;
    range.bytes += extent->bytes;
  }
  return set_access(range);
}

// Returns false if the range stays mapped. Defers device errors.
bool ViewTable::try_unmap(AddressRange range) noexcept {
  return catch_bad_alloc([&]() ASHLAR_REQUIRES(engine_lock) {
    Status unmapped = config_.device.unmap(range);
    const bool is_ok = unmapped.ok();
    if (!is_ok) error_.record(std::move(unmapped));
    return is_ok;
  });
}

Status ViewTable::set_access(AddressRange range) {
  for (const DeviceIndex accessor : accessors_) {
    Status opened = config_.device.set_access(range, accessor, Access::kReadWrite);
    if (!opened.ok()) return opened;
  }
  return {};
}

bool ViewTable::unmap_all(Extent& extent) noexcept {
  while (!extent.mappings.empty()) {
    const Extent::Mapping mapping = extent.mappings.back();
    const Slot& slot = mapping.view->slots[mapping.slot];
    if (slot.is_mapped && !try_unmap(mapping.view->range_of(slot))) return false;
    forget_mapping(*mapping.view, mapping.slot);
  }
  return true;
}

Status ViewTable::unmap_for_pause(Extent& extent) {
  if (extent.is_dropped) return {};
  for (const Extent::Mapping& mapping : extent.mappings) {
    Slot& slot = mapping.view->slots[mapping.slot];
    if (!slot.is_mapped) continue;
    Status unmapped = config_.device.unmap(mapping.view->range_of(slot));
    if (!unmapped.ok()) return unmapped;
    slot.is_mapped = false;
    slot.is_accessible = false;
    mapping.view->repack(mapping.slot);
  }
  return {};
}

Status ViewTable::map_again(Extent& extent) {
  const RemapObservers::Reservation notices = observers_.reserve(extent.mappings.size());
  for (const Extent::Mapping& mapping : extent.mappings) {
    Slot& slot = mapping.view->slots[mapping.slot];
    if (slot.is_retired()) continue;
    const AddressRange range = mapping.view->range_of(slot);
    if (!slot.is_mapped) {
      if (Status mapped = config_.device.map(range.begin, extent.id); !mapped.ok()) return mapped;
      slot.is_mapped = true;
      observers_.queue_mapped(range);
    }
    if (!slot.is_accessible) {
      if (Status opened = set_access(range); !opened.ok()) return opened;
    }
    slot.is_accessible = true;
    mapping.view->repack(mapping.slot);
  }
  return {};
}

// Reserves a second notice for each mapping, for `cancel_release`.
RemapObservers::Reservation ViewTable::announce_release(const std::vector<Extent*>& extents) {
  size_t mapping_count = 0;
  for (const Extent* extent : extents) mapping_count += extent->mappings.size();
  RemapObservers::Reservation notices = observers_.reserve(2 * mapping_count);
  ScopeGuard cancel([&]() ASHLAR_REQUIRES(engine_lock) {
    for (Extent* extent : extents) cancel_release(*extent);
  });
  for (Extent* extent : extents) {
    extent->is_releasing = true;
    for (const Extent::Mapping& mapping : extent->mappings) {
      const Slot& slot = mapping.view->slots[mapping.slot];
      if (!slot.is_mapped || slot.is_unmap_announced) continue;
      observers_.queue_unmapping(mapping.view->range_of(slot));
    }
  }
  if (observers_.any() && !extents.empty()) {
    EngineUnlock unlocked(mutex_);
    observers_.notify();
  }
  cancel.dismiss();
  return notices;
}

void ViewTable::cancel_release(Extent& extent) noexcept {
  extent.is_releasing = false;
  if (!extent.is_traced_at_mapping()) trace_other_mapping(extent);
  for (const Extent::Mapping& mapping : extent.mappings) {
    const Slot& slot = mapping.view->slots[mapping.slot];
    if (!slot.is_mapped || slot.is_unmap_announced) continue;
    observers_.queue_mapped(mapping.view->range_of(slot));
  }
}

void ViewTable::retire_slot(View& view, size_t slot, uint64_t serial) noexcept {
  view.slots[slot].retirement = serial;
  view.repack(slot);
  ++retired_.mappings;
}

void ViewTable::retire_view(View& view) noexcept {
  view.retirement.is_whole = true;
  retired_.address_bytes += view.reserved.bytes;
}

void ViewTable::unretire_view(View& view) noexcept {
  if (std::exchange(view.retirement.is_whole, false)) retired_.address_bytes -= view.reserved.bytes;
}

void ViewTable::unretire_slot(View& view, size_t slot) noexcept {
  view.slots[slot].retirement = 0;
  view.repack(slot);
  --retired_.mappings;
}

void ViewTable::unmap_retired_slot(View& view, size_t index) noexcept {
  Slot& slot = view.slots[index];
  if (slot.is_mapped && !slot.is_unmap_announced) {
    unretire_slot(view, index);  // the release of the extent unmaps the slot
    return;
  }
  const AddressRange range = view.range_of(slot);
  if (!slot.is_mapped || try_unmap(range)) {
    forget_mapping(view, index);
    return;
  }
  unretire_slot(view, index);
  slot.is_unmap_announced = false;
  if (!slot.extent->is_releasing) observers_.queue_mapped(range);
}

// REQUIRES: the extent is neither attached to the slot nor mapped in it.
void ViewTable::forget_mapping(View& view, size_t index) noexcept {
  Slot& slot = view.slots[index];
  Extent& extent = *slot.extent;
  std::erase_if(extent.mappings, [&](const Extent::Mapping& mapping) {
    return mapping.view == &view && mapping.slot == index;
  });
  if (extent.origin.view == &view && extent.origin.slot == index) extent.origin = {};
  // A release traces the extent once, when all mappings are gone.
  if (extent.traced == view.range_of(slot) && !extent.is_releasing) trace_other_mapping(extent);
  --usage_.mappings;
  if (std::exchange(slot.retirement, 0) != 0) --retired_.mappings;
  slot.is_unmap_announced = false;
  BiasedLock lock(view.arena->lock);
  slot.extent = nullptr;
  view.repack(index);
}

// Updates the traced address of an idle extent after the mapping at that address was removed:
// records a move to another mapping, or an unmap if there is none.
void ViewTable::trace_other_mapping(Extent& extent) noexcept {
  if (extent.mappings.empty()) {
    tracer_.trace_memory(TraceAction::kSegmentUnmap, *extent.arena, extent.traced);
    extent.traced = {};
  } else {
    const Extent::Mapping& other = extent.mappings.front();
    tracer_.trace_move(extent, other.view->range_of(other.view->slots[other.slot]), *extent.arena);
  }
}

Status ViewTable::grant_access_to(DeviceIndex accessor, const PagedPool& pool) {
  for (const auto& view : pool.views) {
    for (const Slot& slot : view->slots) {
      if (slot.extent == nullptr || !slot.is_mapped) continue;
      Status opened = config_.device.set_access(view->range_of(slot), accessor, Access::kReadWrite);
      if (!opened.ok()) return opened;
    }
  }
  return {};
}

bool ViewTable::is_accessor(DeviceIndex device) const {
  return std::find(accessors_.begin(), accessors_.end(), device) != accessors_.end();
}

}  // namespace ashlar::paged
