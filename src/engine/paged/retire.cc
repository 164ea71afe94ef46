// SPDX-License-Identifier: Apache-2.0
//
// Mappings that nobody needs any more. Memory that moves from view to view leaves its old mappings
// behind, to be used again for nothing; a program whose sizes never come again would pile them up,
// and addresses with them. Above a bound, those that were left longest ago are retired.
//
// Nothing here waits. What retires is out of use at once, and an event in each stream that may have
// work with it is recorded. When memory is mapped or given back some time later, and the events are
// done, observers hear of it, and it is unmapped. A hit never comes here, and neither does a steady
// loop, which maps nothing.
#include <algorithm>

#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

constexpr double kUnmapUs = 23;

// Beside the mapping through which an extent is used. Recorded programs get by with at most eight
// (docs/design/paged.md); fewer than so many in all are never too many.
constexpr size_t kSpareMappingsPerExtent = 8;
constexpr size_t kFewMappings = 16384;
// Others in the process map memory too.
constexpr size_t kShareOfMappings = 4;
// As often as the device has memory. 47 bits are 1,600 times the memory of a large device.
constexpr size_t kMostAddresses = 32;

// Once it is too much, an eighth goes: so that all mappings are looked at only now and then.
size_t target_below(size_t most) { return most - most / 8; }

}  // namespace

void PagedEngine::retire_mappings() {
  // While something captures, streams cannot be asked: it will still be there afterwards.
  if (waiting_.capture_count() != 0) return;
  unmap_retired();
  const Crowd most = most_allowed();
  const Crowd now = unretired();
  if (now.mappings <= most.mappings && now.address_bytes <= most.address_bytes) return;
  retire_down_to(
      {now.mappings > most.mappings ? target_below(most.mappings) : SIZE_MAX,
       now.address_bytes > most.address_bytes ? target_below(most.address_bytes) : SIZE_MAX});
}

// The device lacks mappings or addresses although we keep within our bounds: others need them.
Status PagedEngine::shed_mappings() {
  if (waiting_.capture_count() != 0) return {};
  retire_down_to({0, 0});
  for (const auto& [id, pool] : pools_) {
    for (const Retirement& retirement : pool->retired) {
      for (const EventId event : retirement.events) {
        if (Status waited = device_.synchronize_event(event); !waited.ok()) return waited;
      }
    }
  }
  unmap_retired();
  return {};
}

size_t PagedEngine::most_spare_mappings(size_t extent_count) const {
  const size_t most = std::max(kFewMappings, kSpareMappingsPerExtent * extent_count);
  const size_t limit = device_.properties().max_mappings;
  return limit == 0 ? most : std::min(most, limit / kShareOfMappings);
}

Crowd PagedEngine::most_allowed() const {
  size_t extent_count = 0;
  for (const auto& [id, pool] : pools_) extent_count += pool->extents.size();
  return {extent_count + most_spare_mappings(extent_count), most_address_bytes()};
}

size_t PagedEngine::most_address_bytes() const { return kMostAddresses * capacity_bytes_; }

Crowd PagedEngine::unretired() const {
  return {mapping_count_ - retired_count_, address_bytes_ - retired_address_bytes_};
}

// --- choosing -----------------------------------------------------------------------------------

void PagedEngine::retire_down_to(const Crowd& target) {
  std::vector<Spare> spare;
  for (const auto& [id, pool] : pools_) {
    if (!pool->may_unmap()) continue;
    for (const auto& view : pool->views) {
      if (!view->is_plain && !view->is_retired) find_spare(*view, spare);
    }
  }
  std::sort(spare.begin(), spare.end(), [](const Spare& a, const Spare& b) {
    return a.left_at != b.left_at ? a.left_at < b.left_at : a.begin() < b.begin();
  });
  retire(spare, target);
  if (unretired().address_bytes <= target.address_bytes) return;

  // Views with free memory of their own go only for their addresses: hits are served from them.
  std::vector<View*> unused;
  for (const auto& [id, pool] : pools_) {
    if (!pool->may_unmap()) continue;
    release_empty_views(*pool);
    find_unused(*pool, unused);
  }
  std::sort(unused.begin(), unused.end(), [](const View* a, const View* b) {
    return a->claimed_at != b->claimed_at ? a->claimed_at < b->claimed_at
                                          : a->reserved.begin < b->reserved.begin;
  });
  for (View* view : unused) {
    if (unretired().address_bytes <= target.address_bytes) return;
    spare.clear();
    if (!vacate(*view)) continue;
    find_spare(*view, spare);
    retire(spare, target);
  }
}

// What lies next to each other and is away goes together: a part of it is of little use. Of a view
// without any memory of its own, all of it, and the addresses too.
void PagedEngine::find_spare(View& view, std::vector<Spare>& spare) const {
  Spare all{&view, 0, view.slots.size()};
  all.is_whole = true;
  std::vector<Spare> stretches;
  for (size_t i = 0; i < view.slots.size(); ++i) {
    const Slot& slot = view.slots[i];
    const bool goes = slot.extent == nullptr || slot.is_retired() || slot.extent->is_leaving;
    if (!is_spare(view, i)) {
      all.is_whole = all.is_whole && goes;
      continue;
    }
    if (stretches.empty() || stretches.back().end != i) stretches.push_back({&view, i, i});
    Spare& stretch = stretches.back();
    stretch.end = i + 1;
    ++stretch.count;
    ++all.count;
    stretch.left_at = std::max(stretch.left_at, slot.left_at);
    all.left_at = std::max(all.left_at, slot.left_at);
  }
  if (all.count == 0) return;
  if (all.is_whole) {
    spare.push_back(all);
  } else {
    spare.insert(spare.end(), stretches.begin(), stretches.end());
  }
}

bool PagedEngine::is_spare(const View& view, size_t slot) {
  const Slot& at = view.slots[slot];
  if (at.extent == nullptr || at.is_retired() || at.extent->is_leaving) return false;
  // Nor where its memory will go back to.
  const Extent::Mapping& origin = at.extent->origin;
  const bool is_origin = origin.view == &view && origin.slot == slot;
  return !at.extent->is_at_home_in(view, slot) && !(is_origin && at.extent->home != nullptr);
}

void PagedEngine::find_unused(PagedPool& pool, std::vector<View*>& unused) {
  AllArenas lock(pool);
  for (const auto& view : pool.views) {
    const bool has_memory = !view->is_plain && !view->is_retired && !view->slots.empty();
    if (has_memory && !is_in_use(*view)) unused.push_back(view.get());
  }
}

bool PagedEngine::is_in_use(const View& view) {
  const PagedBlock* block = view.first;
  while (block != nullptr && !block->is_active()) block = block->next;
  return block != nullptr;
}

// Its memory is idle afterwards, and free to be mapped elsewhere. False: it is in use by now.
bool PagedEngine::vacate(View& view) {
  AllArenas lock(view.arena->pool);
  view.arena->flush();
  if (is_in_use(view)) return false;
  move_view(view, *view.arena);
  return true;
}

// --- retiring -----------------------------------------------------------------------------------

// In this order, as far as the target asks for it. Work that used a slot's memory, through whatever
// view, comes before an event in the stream that used it last: whoever lent it was waited for.
void PagedEngine::retire(const std::vector<Spare>& spare, const Crowd& target) {
  std::map<Arena*, std::optional<EventId>> events;  // none: the stream is gone
  std::map<PagedPool*, Retirement> retirements;
  const uint64_t serial = ++last_retirement_;
  for (const Spare& each : spare) {
    const Crowd now = unretired();
    const bool is_wanted = now.mappings > target.mappings ||
                           (each.is_whole && now.address_bytes > target.address_bytes);
    if (!is_wanted || !record_behind(each, events)) continue;
    View& view = *each.view;
    PagedPool& pool = view.arena->pool;
    for (size_t i = each.first; i < each.end; ++i) {
      if (!is_spare(view, i)) continue;
      view.slots[i].retirement = serial;
      pack(view, i);
    }
    retired_count_ += each.count;
    view.is_retired = each.is_whole;
    if (each.is_whole) retired_address_bytes_ += view.reserved.bytes;
    retirements[&pool].spare.push_back(each);
    // What unmapping costs, stitching has to save.
    pool.budget.spend_us(kUnmapUs * static_cast<double>(each.count));
  }
  for (const auto& [arena, event] : events) {
    if (!event) continue;
    const auto retirement = retirements.find(&arena->pool);
    if (retirement == retirements.end()) {
      give_back_event(*event);  // another stream that it takes is gone
    } else {
      retirement->second.events.push_back(*event);
    }
  }
  for (auto& [pool, retirement] : retirements) {
    retirement.serial = serial;
    pool->retired.push_back(std::move(retirement));
  }
}

bool PagedEngine::record_behind(const Spare& spare,
                                std::map<Arena*, std::optional<EventId>>& events) {
  bool are_all = true;
  for (size_t i = spare.first; i < spare.end; ++i) {
    if (!is_spare(*spare.view, i)) continue;
    Arena* arena = spare.view->slots[i].extent->arena;
    const auto [found, is_new] = events.try_emplace(arena);
    if (is_new) {
      const Result<EventId> event = record_on(*arena);
      if (event.ok()) found->second = *event;
    }
    are_all = are_all && found->second.has_value();
  }
  return are_all;
}

// --- unmapping ----------------------------------------------------------------------------------

void PagedEngine::unmap_retired() {
  if (remaps_.any() && remaps_.is_notifying_thread()) return;  // an observer is not through yet
  bool any_due = false;
  for (const auto& [id, pool] : pools_) {
    if (pool->is_changing || pool->is_paused) continue;
    for (Retirement& retirement : pool->retired) {
      if (retirement.announcement == 0 && is_over(retirement)) announce(retirement);
      any_due = any_due || retirement.announcement != 0;
    }
  }
  if (!any_due) return;
  const uint64_t last = last_announcement_;
  if (remaps_.any()) {
    MutexUnlock unlocked(mutex_);
    remaps_.notify();
  }
  for (const auto& [id, pool] : pools_) {
    if (pool->is_changing || pool->is_paused) continue;
    // One by one, since a view that goes takes what is left of it out of all lists.
    for (size_t i = 0; i < pool->retired.size();) {
      Retirement& retirement = pool->retired[i];
      // What another thread has announced meanwhile may not have been told yet.
      if (retirement.announcement == 0 || retirement.announcement > last) {
        ++i;
        continue;
      }
      while (!retirement.spare.empty()) {
        const Spare spare = retirement.spare.back();
        retirement.spare.pop_back();
        unmap_spare(spare, retirement.serial);
      }
      pool->retired.erase(pool->retired.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

void PagedEngine::announce(Retirement& retirement) {
  retirement.announcement = ++last_announcement_;
  for (const Spare& spare : retirement.spare) {
    for (size_t i = spare.first; i < spare.end; ++i) {
      Slot& slot = spare.view->slots[i];
      // What goes to the device with its extent is announced with that.
      const bool is_due = slot.retirement == retirement.serial && slot.is_mapped;
      if (!is_due || slot.extent->is_leaving) continue;
      slot.is_announced = true;
      remaps_.queue_unmapping({spare.view->at(slot.offset), slot.bytes});
    }
  }
}

bool PagedEngine::is_over(Retirement& retirement) {
  std::erase_if(retirement.events, [&](EventId event) ASHLAR_REQUIRES(mutex_) {
    Result<bool> done = device_.is_done(event);
    if (!done.ok()) defer_error(done.status());
    const bool is_done = done.ok() && *done;
    if (is_done) give_back_event(event);
    return is_done;
  });
  return retirement.events.empty();
}

// What the device does not let go can be used again, and observers hear so.
void PagedEngine::unmap_spare(const Spare& spare, uint64_t retirement) {
  View& view = *spare.view;
  for (size_t i = spare.first; i < spare.end; ++i) {
    Slot& slot = view.slots[i];
    if (slot.retirement != retirement) continue;
    if (slot.is_mapped && !slot.is_announced) {
      slot.retirement = 0;  // its extent is on its way to the device, and takes it along
      pack(view, i);
      --retired_count_;
      continue;
    }
    const AddressRange range{view.at(slot.offset), slot.bytes};
    Status unmapped = slot.is_mapped ? device_.unmap(range) : Status();
    if (unmapped.ok()) {
      forget_mapping(view, i);
      continue;
    }
    defer_error(std::move(unmapped));
    slot.retirement = 0;
    pack(view, i);
    slot.is_announced = false;
    --retired_count_;
    if (!slot.extent->is_leaving) remaps_.queue_mapped(range);
  }
  const bool is_empty = std::all_of(view.slots.begin(), view.slots.end(),
                                    [](const Slot& slot) { return slot.extent == nullptr; });
  if (is_empty && release_view(view)) return;
  if (std::exchange(view.is_retired, false)) retired_address_bytes_ -= view.reserved.bytes;
}

// REQUIRES: the extent is not at home there, and is not mapped there any more.
void PagedEngine::forget_mapping(View& view, size_t index) {
  Slot& slot = view.slots[index];
  std::erase_if(slot.extent->mappings, [&](const Extent::Mapping& mapping) {
    return mapping.view == &view && mapping.slot == index;
  });
  Extent::Mapping& origin = slot.extent->origin;
  if (origin.view == &view && origin.slot == index) origin = {};
  --mapping_count_;
  if (std::exchange(slot.retirement, 0) != 0) --retired_count_;
  slot.is_announced = false;
  BiasedLock lock(view.arena->lock);
  slot.extent = nullptr;
  pack(view, index);
}

}  // namespace ashlar::paged
