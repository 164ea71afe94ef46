// SPDX-License-Identifier: Apache-2.0
//
// Chooses, retires and unmaps unused mappings.
#include "engine/paged/mapping_retirer.h"

#include <algorithm>
#include <utility>

#include "base/host_memory.h"

namespace ashlar::paged {
namespace {

// Mappings per extent in addition to the one in use. The recorded runs have at most nine mappings
// per extent.
constexpr size_t kUnusedMappingsPerExtent = 8;
// Number of unused mappings that are allowed for any number of extents, unless
// kDeviceMappingsDivisor allows fewer. Displaced extents return to their origins through old
// mappings: 4,096 were too few for a network with 48 input resolutions
// (docs/internals/experiments/paged_engine.md).
constexpr size_t kMinUnusedMappings = 16384;
// Unused mappings take at most a quarter of the device's mappings, because other code in the
// process needs some as well. Not measured: replays have no limit on mappings.
constexpr size_t kDeviceMappingsDivisor = 4;

// Once a bound is exceeded, usage is reduced to 7/8 of the bound, so that mappings are scanned only
// rarely. Halving or doubling the reduction changes no recorded run.
size_t target_below(size_t bound) { return bound - bound / 8; }

// If too few mappings are unused, usage stays above a bound. The next attempt is made when usage
// has grown by half, because each attempt scans all mappings.
size_t above(size_t usage) { return usage + usage / 2; }

bool is_unused(const View& view, size_t index) {
  const Slot& slot = view.slots[index];
  if (slot.extent == nullptr || slot.is_retired() || slot.extent->is_releasing) return false;
  // The origin of an attached extent is kept, since the extent may return there.
  const Extent::Mapping& origin = slot.extent->origin;
  const bool is_origin = origin.view == &view && origin.slot == index;
  return !slot.extent->is_attached_to(view, index) &&
         !(is_origin && slot.extent->attached_view != nullptr);
}

// Appends the unused mappings of a view to `unused`. Consecutive unused slots are retired together,
// since the remaining part of such a range would be of little use. A view without any mapping in
// use is retired as a whole, with its addresses.
void find_unused_mappings(View& view, std::vector<UnusedMappings>& unused) {
  UnusedMappings all{&view, 0, view.slots.size()};
  all.is_whole_view = true;
  std::vector<UnusedMappings> ranges;
  for (size_t i = 0; i < view.slots.size(); ++i) {
    const Slot& slot = view.slots[i];
    if (!is_unused(view, i)) {
      const bool is_ending =
          slot.extent == nullptr || slot.is_retired() || slot.extent->is_releasing;
      all.is_whole_view = all.is_whole_view && is_ending;
      continue;
    }
    if (ranges.empty() || ranges.back().end != i) ranges.push_back({&view, i, i});
    UnusedMappings& range = ranges.back();
    range.end = i + 1;
    ++range.count;
    ++all.count;
    range.detached_at = std::max(range.detached_at, slot.detached_at);
    all.detached_at = std::max(all.detached_at, slot.detached_at);
  }
  if (all.count == 0) return;
  if (all.is_whole_view) {
    unused.push_back(all);
  } else {
    unused.insert(unused.end(), ranges.begin(), ranges.end());
  }
}

void find_views_without_active_blocks(const PagedPool& pool, std::vector<View*>& found) {
  ArenaLocks lock(pool);
  for (const auto& view : pool.views) {
    const bool has_memory = !view->is_plain && !view->retirement.is_whole && !view->slots.empty();
    if (has_memory && !view->has_active_block()) found.push_back(view.get());
  }
}

}  // namespace

void MappingRetirer::enforce_bounds() {
  // Does nothing while a stream captures, because then streams cannot be queried.
  if (streams_.capture_count() != 0) return;
  unmap_retired();
  const MappingUsage max = bounds();
  const MappingUsage now = views_.unretired();
  const bool are_mappings_due = now.mappings > std::max(max.mappings, next_attempt_.mappings);
  const bool are_addresses_due =
      now.address_bytes > std::max(max.address_bytes, next_attempt_.address_bytes);
  if (!are_mappings_due && !are_addresses_due) return;
  retire_down_to(
      {now.mappings > max.mappings ? target_below(max.mappings) : SIZE_MAX,
       now.address_bytes > max.address_bytes ? target_below(max.address_bytes) : SIZE_MAX});
  const MappingUsage left = views_.unretired();
  next_attempt_ = {left.mappings > max.mappings ? above(left.mappings) : 0,
                   left.address_bytes > max.address_bytes ? above(left.address_bytes) : 0};
}

Status MappingRetirer::retire_all() {
  if (streams_.capture_count() != 0) return {};
  retire_down_to({0, 0});
  for (const PagedPool* pool : retiring_pools()) {
    for (const Retirement& retirement : pool->retirements) {
      for (const EventId event : retirement.events) {
        if (Status waited = config_.device.synchronize_event(event); !waited.ok()) return waited;
      }
    }
  }
  unmap_retired();
  return {};
}

MappingUsage MappingRetirer::bounds() const {
  const size_t extent_count = extents_.extent_count();
  return {extent_count + max_unused_mappings(extent_count), views_.max_address_bytes()};
}

size_t MappingRetirer::max_unused_mappings(size_t extent_count) const {
  const size_t max = std::max(kMinUnusedMappings, kUnusedMappingsPerExtent * extent_count);
  const size_t limit = config_.device.properties().max_mappings;
  return limit == 0 ? max : std::min(max, limit / kDeviceMappingsDivisor);
}

void MappingRetirer::retire_down_to(const MappingUsage& target) {
  std::vector<UnusedMappings> unused;
  for (const auto& [id, pool] : pools_.all()) {
    if (!pool->may_retire_mappings()) continue;
    for (const auto& view : pool->views) {
      if (!view->is_plain && !view->retirement.is_whole) find_unused_mappings(*view, unused);
    }
  }
  std::sort(unused.begin(), unused.end(), [](const UnusedMappings& a, const UnusedMappings& b) {
    return a.detached_at != b.detached_at ? a.detached_at < b.detached_at : a.begin() < b.begin();
  });
  retire(unused, target);
  if (views_.unretired().address_bytes <= target.address_bytes) return;

  // Views with free memory are retired last, and only to free addresses, because hits are served
  // from them.
  std::vector<View*> candidates;
  for (const auto& [id, pool] : pools_.all()) {
    if (!pool->may_retire_mappings()) continue;
    views_.release_empty(*pool);
    find_views_without_active_blocks(*pool, candidates);
  }
  std::sort(candidates.begin(), candidates.end(), [](const View* a, const View* b) {
    return a->last_placed_at != b->last_placed_at ? a->last_placed_at < b->last_placed_at
                                                  : a->reserved.begin < b->reserved.begin;
  });
  for (View* view : candidates) {
    if (views_.unretired().address_bytes <= target.address_bytes) return;
    unused.clear();
    if (!vacate(*view)) continue;
    find_unused_mappings(*view, unused);
    retire(unused, target);
  }
}

// Detaches all extents of the view. Returns false if a block of the view is in use by now.
bool MappingRetirer::vacate(View& view) {
  ArenaLocks lock(view.arena->pool);
  view.arena->fill_reserve();
  view.arena->flush();
  if (view.has_active_block()) return false;
  mover_.move_view(view, *view.arena);
  return true;
}

// Retires in the given order until the target is met. For each extent, an event on the stream that
// last used it suffices: the event is ordered after all work on the extent, through any view,
// because lenders are ordered before borrowers.
void MappingRetirer::retire(const std::vector<UnusedMappings>& unused, const MappingUsage& target) {
  Batch batch;
  batch.serial = ++last_serial_;
  const ScopeGuard end([&]() ASHLAR_REQUIRES(engine_lock) { finish(batch); });
  for (const UnusedMappings& each : unused) {
    const MappingUsage now = views_.unretired();
    const bool is_wanted = now.mappings > target.mappings ||
                           (each.is_whole_view && now.address_bytes > target.address_bytes);
    if (!is_wanted) continue;
    View& view = *each.view;
    PagedPool& pool = view.arena->pool;
    Retirement& retirement = prepare(batch, pool);
    if (!record_events(each, batch.events)) continue;
    for (size_t i = each.first; i < each.end; ++i) {
      if (is_unused(view, i)) views_.retire_slot(view, i, batch.serial);
    }
    if (each.is_whole_view) views_.retire_view(view);
    retirement.mappings.push_back(each);
    ++view.retirement.range_count;
    pool.budget.spend_driver_us(kUnmapUs * static_cast<double>(each.count));
  }
}

// Returns the pool's retirement in the batch, with capacity for one more range of mappings and for
// the events of all streams. Reserves capacity for the retirement in the pool.
Retirement& MappingRetirer::prepare(Batch& batch, PagedPool& pool) {
  Retirement& retirement = batch.retirements[&pool];
  reserve_amortized(retirement.mappings, retirement.mappings.size() + 1);
  retirement.events.reserve(pool.arenas.size());
  reserve_amortized(pool.retirements, pool.retirements.size() + 1);
  retiring_pools_.insert(pool.id);
  return retirement;
}

// Adds the retirements and their events to the pools. Recycles the events of pools without a
// retired mapping.
void MappingRetirer::finish(Batch& batch) noexcept {
  for (const auto& [arena, event] : batch.events) {
    if (!event) continue;
    const auto retirement = batch.retirements.find(&arena->pool);
    const bool is_needed =
        retirement != batch.retirements.end() && !retirement->second.mappings.empty();
    if (is_needed) {
      retirement->second.events.push_back(*event);
    } else {
      streams_.recycle(*event);
    }
  }
  for (auto& [pool, retirement] : batch.retirements) {
    if (retirement.mappings.empty()) continue;
    retirement.serial = batch.serial;
    pool->retirements.push_back(std::move(retirement));
  }
}

// Adds to `events` one event for each stream that last used an extent of the mappings. Returns
// false if an event could not be recorded, usually because its stream has been destroyed.
bool MappingRetirer::record_events(const UnusedMappings& unused, Events& events) {
  bool are_all_recorded = true;
  for (size_t i = unused.first; i < unused.end; ++i) {
    if (!is_unused(*unused.view, i)) continue;
    Arena* arena = unused.view->slots[i].extent->arena;
    const auto [found, is_new] = events.try_emplace(arena);
    if (is_new) {
      const Result<EventId> event = streams_.record_event(arena->stream);
      if (event.ok()) found->second = *event;
    }
    are_all_recorded = are_all_recorded && found->second.has_value();
  }
  return are_all_recorded;
}

// Returns the pools that have retirements.
std::vector<PagedPool*> MappingRetirer::retiring_pools() {
  std::vector<PagedPool*> pools;
  std::erase_if(retiring_pools_, [&](PoolId id) ASHLAR_REQUIRES(engine_lock) {
    PagedPool* pool = pools_.find(id);
    const bool is_retiring = pool != nullptr && !pool->retirements.empty();
    if (is_retiring) pools.push_back(pool);
    return !is_retiring;
  });
  return pools;
}

void MappingRetirer::unmap_retired() {
  RemapObservers& observers = views_.observers();
  // If an observer called the engine, the announcement that the observer is handling is not
  // complete yet, so nothing is unmapped.
  if (observers.any() && observers.is_notifying_thread()) return;
  if (!announce_finished()) return;
  const uint64_t last = last_announcement_;
  if (observers.any()) {
    EngineUnlock unlocked(mutex_);
    observers.notify();
  }
  for (PagedPool* pool : retiring_pools()) {
    if (pool->is_changing || pool->is_paused) continue;
    // Takes one element at a time, because unmapping may release a view, which removes elements
    // from all retirements.
    for (size_t i = 0; i < pool->retirements.size();) {
      Retirement& retirement = pool->retirements[i];
      // Skips announcements that other threads made meanwhile, which may not have reached observers
      // yet.
      if (retirement.announcement == 0 || retirement.announcement > last) {
        ++i;
        continue;
      }
      while (!retirement.mappings.empty()) {
        const UnusedMappings unused = retirement.mappings.back();
        const RemapObservers::Reservation notices = observers.reserve(unused.end - unused.first);
        retirement.mappings.pop_back();
        --unused.view->retirement.range_count;
        unmap(unused, retirement.serial);
      }
      pool->retirements.erase(pool->retirements.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

// Announces the retirements whose events are done. Returns whether any retirement is announced and
// can be unmapped.
bool MappingRetirer::announce_finished() {
  bool is_any_announced = false;
  for (PagedPool* pool : retiring_pools()) {
    if (pool->is_changing || pool->is_paused) continue;
    for (Retirement& retirement : pool->retirements) {
      if (retirement.announcement == 0 && is_finished(retirement)) announce(retirement);
      is_any_announced = is_any_announced || retirement.announcement != 0;
    }
  }
  return is_any_announced;
}

bool MappingRetirer::is_finished(Retirement& retirement) {
  std::vector<EventId>& events = retirement.events;
  for (size_t i = events.size(); i > 0; --i) {
    if (!streams_.recycle_if_done(events[i - 1])) continue;
    events.erase(events.begin() + static_cast<ptrdiff_t>(i - 1));
  }
  return events.empty();
}

void MappingRetirer::announce(Retirement& retirement) {
  size_t slot_count = 0;
  for (const UnusedMappings& unused : retirement.mappings) slot_count += unused.end - unused.first;
  const RemapObservers::Reservation notices = views_.observers().reserve(slot_count);
  retirement.announcement = ++last_announcement_;
  for (const UnusedMappings& unused : retirement.mappings) {
    for (size_t i = unused.first; i < unused.end; ++i) {
      Slot& slot = unused.view->slots[i];
      // If the extent is being released, ViewTable::announce_release has announced its mappings.
      const bool is_due = slot.retirement == retirement.serial && slot.is_mapped;
      if (!is_due || slot.extent->is_releasing) continue;
      slot.is_unmap_announced = true;
      views_.observers().queue_unmapping(unused.view->range_of(slot));
    }
  }
}

void MappingRetirer::unmap(const UnusedMappings& unused, uint64_t serial) noexcept {
  View& view = *unused.view;
  for (size_t i = unused.first; i < unused.end; ++i) {
    if (view.slots[i].retirement == serial) views_.unmap_retired_slot(view, i);
  }
  if (!view.has_extents() && views_.release(view)) return;
  views_.unretire_view(view);
}

}  // namespace ashlar::paged
