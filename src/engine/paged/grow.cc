// SPDX-License-Identifier: Apache-2.0
//
// Driver calls: extents, mappings and addresses; and plain segments, where those are wanted.
#include <algorithm>

#include "base/align.h"
#include "base/check.h"
#include "base/ticks.h"
#include "device/relaxed_capture.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {

size_t PagedEngine::limit_bytes() const {
  if (memory_fraction_ >= 1) return capacity_bytes_;
  return static_cast<size_t>(memory_fraction_ * static_cast<double>(capacity_bytes_));
}

bool PagedEngine::is_above_limit(size_t more_bytes) const {
  return memory_fraction_ < 1 && held_bytes_ + growing_bytes_ + more_bytes > limit_bytes();
}

Status PagedEngine::check_limit(Search& search, size_t more_bytes) {
  search.device_bytes = more_bytes;
  if (!is_above_limit(more_bytes)) return {};
  search.rejected = options_.reject_before_device_oom;
  return Status::out_of_memory("above the limit of this process");
}

// --- views --------------------------------------------------------------------------------------

// With room to grow at its end, if the device has the addresses: a stream's first view of large
// blocks is where its new memory goes (`place_new_memory`).
Result<View*> PagedEngine::new_view(Search& search, size_t bytes) {
  const bool is_first =
      std::none_of(search.pool->views.begin(), search.pool->views.end(), [&](const auto& view) {
        return view->arena == search.arena && view->is_small == search.is_small;
      });
  const size_t room = capacity_bytes_ / (is_first && !search.is_small ? 4 : 16);
  const size_t least = align_up_to(std::max(grown_bytes(search), bytes), granule_bytes_);
  const size_t ample = align_up_to(std::max(room, 2 * bytes), granule_bytes_);
  const bool is_crowded = address_bytes_ + ample > most_address_bytes();
  size_t reserved_bytes = is_crowded ? least : std::max(least, ample);
  Result<DeviceAddress> at = device_.reserve(reserved_bytes);
  if (!at.ok() && at.status().is_out_of_memory() && reserved_bytes > least) {
    reserved_bytes = least;
    at = device_.reserve(reserved_bytes);
  }
  search.lacks_room = !at.ok() && at.status().is_out_of_memory();
  if (!at.ok()) return at.status();
  address_bytes_ += reserved_bytes;
  View& view = search.pool->add_view();
  view.reserved = {*at, reserved_bytes};
  view.arena = search.arena;
  view.is_small = search.is_small;
  view.granule_bytes = granule_bytes_;
  view.stack = search.request.stack;
  return &view;
}

Result<std::vector<Extent*>> PagedEngine::create_extents(const Search& search,
                                                         const std::vector<size_t>& sizes) {
  std::vector<Extent*> created;
  created.reserve(sizes.size());
  search.pool->idle.make_room_for(search.pool->extents.size() + sizes.size());
  CreateOptions how;
  how.export_fd = is_shareable();
  for (const size_t bytes : sizes) {
    const Result<ExtentId> id = device_.create(bytes, how);
    if (!id.ok()) {
      for (Extent* extent : created) release_extent(*search.pool, extent);
      return id.status();
    }
    auto extent = std::make_unique<Extent>();
    extent->id = *id;
    extent->bytes = bytes;
    extent->position = search.pool->extents.size();
    extent->arena = search.arena;
    extent->is_small = search.is_small;
    created.push_back(extent.get());
    search.pool->extents.push_back(std::move(extent));
    search.pool->idle.add();
    held_bytes_ += bytes;
    count_reserved(*search.arena, search.is_small, static_cast<int64_t>(bytes));
  }
  return created;
}

Status PagedEngine::map_behind(Claim& claim, Search& search) {
  View& view = *claim.view;
  const size_t begin = view.mapped_bytes;
  const uint64_t mapped_ticks = ticks_now();
  size_t end = begin;
  Status status;
  std::vector<Extent*> mapped;
  for (Extent* extent : claim.pieces) {
    status = device_.map(view.at(end), extent->id);
    search.lacks_room = status.is_out_of_memory();
    if (!status.ok()) break;
    mapped.push_back(extent);
    end += extent->bytes;
  }
  const AddressRange range{view.at(begin), end - begin};
  for (size_t i = 0; status.ok() && i < accessors_.size(); ++i) {
    status = device_.set_access(range, accessors_[i], Access::kReadWrite);
  }
  if (!status.ok() && range.bytes > 0) {
    Status unmapped = device_.unmap(range);
    if (unmapped.ok()) mapped.clear();
    if (!unmapped.ok()) defer_error(std::move(unmapped));
  }
  // Where even that failed, the mappings are there and nobody uses them.
  BiasedLock lock(view.arena->lock);
  view.make_room_for(mapped.size(), range.bytes);
  for (Extent* extent : mapped) {
    extent->mappings.push_back({&view, view.slots.size()});
    if (extent->origin.view == nullptr) extent->origin = extent->mappings.back();
    ++mapping_count_;
    has_mapped_ = true;
    Slot slot{view.mapped_bytes, extent->bytes, extent};
    slot.is_open = status.ok();
    slot.mapped_ticks = mapped_ticks;
    view.add_slot(slot);
    pack(view, view.slots.size() - 1);
    if (status.ok()) come_home(*extent, view, view.slots.size() - 1);
    remaps_.queue_mapped({view.at(slot.offset), slot.bytes});
  }
  if (mapped.empty()) return status;
  Arena& arena = *view.arena;
  PagedBlock* added = arena.insert_block(view, range, nullptr);
  if (!status.ok()) {
    arena.add_away(added);
  } else if (claim.block != nullptr) {
    claim.block->bytes += added->bytes;
    arena.remove_block(added);
  } else {
    claim.block = added;
    claim.offset = begin;
  }
  return status;
}

// --- giving back
// ----------------------------------------------------------------------------------

bool PagedEngine::release_extent(PagedPool& pool, Extent* extent) {
  ASHLAR_CHECK(extent->home == nullptr);
  while (!extent->mappings.empty()) {
    const Extent::Mapping mapping = extent->mappings.back();
    Slot& slot = mapping.view->slots[mapping.slot];
    Status unmapped =
        slot.is_mapped ? device_.unmap({mapping.view->at(slot.offset), slot.bytes}) : Status();
    if (!unmapped.ok()) {
      defer_error(std::move(unmapped));
      return false;
    }
    forget_mapping(*mapping.view, mapping.slot);
  }
  if (Status dropped = drop(*extent); !dropped.ok()) {
    defer_error(std::move(dropped));
    return false;
  }
  forget_backup(*extent);
  Extent& last = *pool.extents.back();
  pool.idle.replace_by_last(*extent);
  last.position = extent->position;
  for (const Extent::Mapping& mapping : last.mappings) pack(*mapping.view, mapping.slot);
  std::swap(pool.extents[last.position], pool.extents.back());
  pool.extents.pop_back();  // and `extent` with it, which may be `last` itself
  return true;
}

void PagedEngine::announce_leaving(const std::vector<Extent*>& extents) {
  for (Extent* extent : extents) {
    extent->is_leaving = true;
    for (const Extent::Mapping& mapping : extent->mappings) {
      const Slot& slot = mapping.view->slots[mapping.slot];
      if (!slot.is_mapped || slot.is_announced) continue;
      remaps_.queue_unmapping({mapping.view->at(slot.offset), slot.bytes});
    }
  }
  if (!remaps_.any() || extents.empty()) return;
  MutexUnlock unlocked(mutex_);
  remaps_.notify();
}

void PagedEngine::stay(Extent& extent) {
  extent.is_leaving = false;
  for (const Extent::Mapping& mapping : extent.mappings) {
    const Slot& slot = mapping.view->slots[mapping.slot];
    if (!slot.is_mapped || slot.is_announced) continue;
    remaps_.queue_mapped({mapping.view->at(slot.offset), slot.bytes});
  }
}

// REQUIRES: no slot has an extent any more.
bool PagedEngine::release_view(View& view) {
  show_elsewhere(view);
  if (Status freed = device_.free_addresses(view.reserved); !freed.ok()) {
    defer_error(std::move(freed));
    return false;
  }
  {
    BiasedLock lock(view.arena->lock);
    view.arena->forget_host(view);
    while (view.first != nullptr) view.arena->remove_block(view.first);
  }
  address_bytes_ -= view.reserved.bytes;
  if (view.is_retired) retired_address_bytes_ -= view.reserved.bytes;
  for (Retirement& retirement : view.arena->pool.retired) {
    std::erase_if(retirement.spare, [&](const Spare& spare) { return spare.view == &view; });
  }
  erase_view(view);
  return true;
}

// Idle memory is shown where it was used last. Once the addresses are gone, others may have them.
void PagedEngine::show_elsewhere(const View& view) {
  for (const auto& extent : view.arena->pool.extents) {
    if (extent->shown.bytes == 0 || !view.reserved.contains(extent->shown.begin)) continue;
    if (extent->mappings.empty()) {
      note_memory(TraceAction::kSegmentUnmap, *extent->arena, extent->shown);
      extent->shown = {};
    } else {
      const Extent::Mapping& other = extent->mappings.front();
      const Slot& slot = other.view->slots[other.slot];
      show(*extent, {other.view->at(slot.offset), slot.bytes}, *extent->arena);
    }
  }
}

void PagedEngine::erase_view(View& view) {
  std::vector<std::unique_ptr<View>>& views = view.arena->pool.views;
  const auto found = std::find_if(views.begin(), views.end(),
                                  [&](const auto& each) { return each.get() == &view; });
  views.erase(found);
}

// --- plain segments
// -------------------------------------------------------------------------------

// A device's own allocation may take long, and a user's source may call us: neither finds us
// locked.
Result<Block*> PagedEngine::grow_plain(Search& search, size_t segment_bytes) {
  if (Status allowed = check_limit(search, segment_bytes); !allowed.ok()) return allowed;
  const std::shared_ptr<SegmentSource> source = search.pool->options.source;
  Result<DeviceAddress> at = Status::out_of_memory("not asked yet");
  growing_bytes_ += segment_bytes;
  {
    MutexUnlock unlocked(mutex_);
    const RelaxedCapture relaxed(device_);
    if (!relaxed.status().ok()) {
      at = relaxed.status();
    } else {
      at = source ? source->allocate(segment_bytes, search.request.stream)
                  : device_.allocate(segment_bytes);
    }
  }
  growing_bytes_ -= segment_bytes;
  caller_stack_ = search.request.stack;
  if (!at.ok()) return at.status();

  View& view = search.pool->add_view();
  view.reserved = {*at, segment_bytes};
  view.mapped_bytes = segment_bytes;
  view.arena = search.arena;
  view.is_small = search.is_small;
  view.is_plain = true;
  view.source = source;
  view.stack = search.request.stack;
  held_bytes_ += segment_bytes;
  count_reserved(*search.arena, search.is_small, static_cast<int64_t>(segment_bytes));
  count_segments(search.is_small, 1);
  Arena& arena = *search.arena;
  BiasedLock lock(arena.lock);
  note_memory(TraceAction::kSegmentAlloc, arena, view.reserved);
  PagedBlock* block = arena.insert_block(view, view.reserved, nullptr);
  const bool is_cut = segment_bytes > search.bytes && !search.pool->options.no_split;
  if (is_cut) arena.add_free(arena.split(block, search.bytes));
  hand_out(arena, block, search.request);
  return block;
}

// A segment, if nothing of it is in use. Work that used it may still be queued in its stream. If
// the device refuses to take it back, it stays, and the next call says so.
bool PagedEngine::release_plain(View& view, TrimWait wait) {
  Arena& arena = *view.arena;
  if (!waiting_.is_waitable({&device_, arena.stream})) return false;
  {
    BiasedLock lock(arena.lock);
    if (view.first != view.last || !view.first->is_in_ranges()) return false;
    arena.erase_free(view.first);
    view.first->state = BlockState::kPending;
  }
  const RelaxedCapture relaxed(device_, waiting_.capture_count());
  Status freed = relaxed.status();
  const bool may_wait = wait == TrimWait::kForWork;
  if (freed.ok() && may_wait) freed = waiting_.wait_for_stream({&device_, arena.stream});
  if (freed.ok() && !may_wait && !is_stream_idle(arena.stream)) {
    BiasedLock lock(arena.lock);
    arena.add_free(view.first);
    return false;
  }
  if (freed.ok() && view.source == nullptr) freed = device_.free(view.reserved.begin);
  if (!freed.ok()) {
    defer_error(std::move(freed));
    BiasedLock lock(arena.lock);
    arena.add_free(view.first);
    return false;
  }
  if (view.source != nullptr) return_queue_.add(view.source, view.reserved);
  note_memory(TraceAction::kSegmentFree, arena, view.reserved);
  held_bytes_ -= view.reserved.bytes;
  count_reserved(arena, view.is_small, -static_cast<int64_t>(view.reserved.bytes));
  count_segments(view.is_small, -1);
  {
    BiasedLock lock(arena.lock);
    arena.remove_block(view.first);
  }
  erase_view(view);
  return true;
}

}  // namespace ashlar::paged
