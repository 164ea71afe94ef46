// SPDX-License-Identifier: Apache-2.0
//
// Selects and releases idle memory.
#include "engine/paged/trimmer.h"

#include <algorithm>
#include <utility>

#include "base/host_memory.h"
#include "device/relaxed_capture.h"
#include "engine/trim_selection.h"

namespace ashlar::paged {

Status Trimmer::trim(PoolId pool) {
  if (pool.is_default() && streams_.capture_count() == 0) {
    if (Status waited = pending_.wait({}); !waited.ok()) return waited;
  }
  if (pool.is_default()) {
    for (const PoolId id : pools_.trimmable_pools()) {
      trim_pool(id, SIZE_MAX, TrimWait::kForWork);
    }
  } else if (pools_.is_freeable(pool)) {
    if (Status waited = pending_.wait(pool); !waited.ok()) return waited;
    trim_pool(pool, SIZE_MAX, TrimWait::kForWork);
  }
  segments_.return_to_sources();
  segments_.wait_for_sources();
  return {};
}

Result<size_t> Trimmer::trim_to(const TrimTarget& target) {
  const RelaxedCapture relaxed(config_.device, streams_.capture_count());
  if (!relaxed.status().ok()) return relaxed.status();
  const bool may_wait = target.wait == TrimWait::kForWork;
  Status collected = may_wait ? pending_.wait({}) : pending_.collect();
  if (!collected.ok()) return collected;
  size_t released_bytes = 0;
  for (const PoolId id : pools_.trimmable_pools()) {
    if (extents_.held_bytes() <= target.reserved_bytes) break;
    released_bytes += trim_pool(id, extents_.held_bytes() - target.reserved_bytes, target.wait);
  }
  return released_bytes;
}

size_t Trimmer::trim_pool(PoolId id, size_t wanted_bytes, TrimWait wait) {
  PagedPool* pool = pools_.find(id);
  if (pool == nullptr || pool->is_changing) return 0;
  size_t released_bytes = release_extents(*pool, wanted_bytes, wait);
  if (released_bytes < wanted_bytes) {
    released_bytes += release_segments(*pool, wanted_bytes - released_bytes, wait);
  }
  pools_.erase_if_unused(id);
  return released_bytes;
}

size_t Trimmer::release_extents(PagedPool& pool, size_t wanted_bytes, TrimWait wait) {
  Progress progress;
  for (const auto& [stream, arena] : pool.arenas) {
    arena->is_lending = streams_.is_waitable(stream);
    if (!arena->is_lending) continue;
    const bool may_query = wait == TrimWait::kNever && streams_.capture_count() == 0;
    if (may_query) query_progress(*arena, progress);
  }
  const RelaxedCapture relaxed(config_.device, streams_.capture_count());
  Status ready = relaxed.status();
  std::vector<Extent*> taken;
  if (ready.ok()) {
    ArenaLocks lock(pool);
    pool.fill_reserves();
    pool.flush();
    taken = take_idle(pool, lock.arenas(), wanted_bytes, wait, progress);
  }
  if (wait == TrimWait::kNever) {
    set_aside_busy(taken, progress);
  } else {
    std::set<const Arena*> users;
    for (const Extent* extent : taken) users.insert(extent->arena);
    for (const Arena* arena : users) {
      if (ready.ok()) ready = streams_.wait_for(arena->stream);
    }
  }
  if (!ready.ok()) {
    error_.record(std::move(ready));
    return 0;
  }
  return release(pool, taken);
}

// Records whether the arena's stream is idle, and whether it has passed the marker of an earlier
// trim.
void Trimmer::query_progress(Arena& arena, Progress& progress) {
  if (streams_.is_idle(arena.stream)) progress.idle.insert(&arena);
  if (!arena.marker || !streams_.recycle_if_done(*arena.marker)) return;
  arena.marker.reset();  // before anything can fail, because it was recycled
  progress.passed[&arena] = arena.marker_round;
}

// Detaches idle extents. If the trim must not wait, takes first those that no queued work uses.
// Detached extents stay unused while the engine is locked, because only a miss could use them.
// REQUIRES: the locks of the pool's arenas.
std::vector<Extent*> Trimmer::take_idle(PagedPool& pool, std::span<Arena* const> arenas,
                                        size_t wanted_bytes, TrimWait wait,
                                        const Progress& progress) {
  if (pool.options.never_remap && pool.has_active_block()) return {};
  mark_idle_extents(pool, arenas, nullptr, config_.granule_bytes);
  std::vector<Extent*> unused;
  std::vector<Extent*> busy;
  pool.idle.for_each_idle([&](uint32_t number) {
    Extent* extent = pool.extents[number - 1].get();
    if (extent->is_releasing) return;
    const bool is_unused = wait == TrimWait::kForWork || progress.is_unused(*extent);
    (is_unused ? unused : busy).push_back(extent);
  });
  std::vector<Extent*> taken = detach_cheapest(unused, wanted_bytes, progress);
  size_t taken_bytes = 0;
  for (const Extent* extent : taken) taken_bytes += extent->bytes;
  if (taken_bytes >= wanted_bytes) return taken;
  const std::vector<Extent*> later = detach_cheapest(busy, wanted_bytes - taken_bytes, progress);
  taken.insert(taken.end(), later.begin(), later.end());
  return taken;
}

// Detaches first the extents that an earlier trim set aside and no request has used since, then
// those that are cheapest to obtain again. The cost of creating or mapping an extent hardly depends
// on its size, so extents with the most bytes per mapping are the cheapest.
std::vector<Extent*> Trimmer::detach_cheapest(std::vector<Extent*>& extents, size_t wanted_bytes,
                                              const Progress& progress) {
  std::sort(extents.begin(), extents.end(), [&](const Extent* a, const Extent* b) {
    if (progress.has_passed(*a) != progress.has_passed(*b)) return progress.has_passed(*a);
    const size_t gain_a = a->bytes * (b->mappings.size() + 1);
    const size_t gain_b = b->bytes * (a->mappings.size() + 1);
    return gain_a != gain_b ? gain_a > gain_b : a->index < b->index;
  });
  std::vector<size_t> sizes;
  for (const Extent* extent : extents) sizes.push_back(extent->bytes);
  const std::vector<size_t> selected = select_for_trim(sizes, wanted_bytes);
  std::vector<Extent*> taken;
  taken.reserve(selected.size());
  for (const size_t i : selected) {
    if (extents[i]->attached_view != nullptr) mover_.detach_idle(*extents[i]);
    taken.push_back(extents[i]);
  }
  return taken;
}

// Removes from `taken` the extents that may still be in use, and records a marker on their streams:
// a busy stream may never be idle, but it passes its markers.
void Trimmer::set_aside_busy(std::vector<Extent*>& taken, Progress& progress) {
  // Queries the idle streams again, since work may have been queued on them between query_progress
  // and the locking of the arenas.
  std::erase_if(progress.idle, [&](const Arena* arena) ASHLAR_REQUIRES(engine_lock) {
    return !streams_.is_idle(arena->stream);
  });
  std::map<Arena*, std::vector<Extent*>> busy;
  std::erase_if(taken, [&](Extent* extent) {
    const bool is_unused = progress.is_unused(*extent);
    if (!is_unused) busy[extent->arena].push_back(extent);
    return !is_unused;
  });
  for (const auto& [arena, extents] : busy) {
    if (arena->marker) continue;  // these extents get the next marker
    const Result<EventId> marker = streams_.record_event(arena->stream);
    if (!marker.ok()) continue;
    arena->marker = *marker;
    ++arena->marker_round;
    for (Extent* extent : extents) extent->marker_round = arena->marker_round;
  }
}

// REQUIRES: the extents are detached, and no queued work uses them.
size_t Trimmer::release(PagedPool& pool, const std::vector<Extent*>& unused) {
  size_t released_bytes = 0;
  ++pool.trim_count;
  const ScopeGuard end([&] {
    --pool.trim_count;
    pools_.notify_changed();
  });
  const RemapObservers::Reservation notices = views_.announce_release(unused);
  for (Extent* extent : unused) {
    const size_t bytes = extent->is_dropped ? 0 : extent->bytes;
    if (views_.unmap_all(*extent) && extents_.release(pool, extent)) {
      released_bytes += bytes;
    } else {
      views_.cancel_release(*extent);
    }
  }
  views_.release_empty(pool);
  return released_bytes;
}

// A driver may synchronize the device when it frees a segment. Therefore, unless the caller may
// wait, segments are released only while all streams are idle. The largest segments come first, so
// that the fewest calls are needed.
size_t Trimmer::release_segments(PagedPool& pool, size_t wanted_bytes, TrimWait wait) {
  std::vector<View*> whole;
  {
    ArenaLocks lock(pool);
    pool.flush();
    for (const auto& view : pool.views) {
      if (view->is_plain && view->first == view->last && view->first->is_in_ranges()) {
        whole.push_back(view.get());
      }
    }
  }
  if (whole.empty() || (wait == TrimWait::kNever && !are_all_streams_idle())) return 0;
  std::sort(whole.begin(), whole.end(), [](const View* a, const View* b) {
    const AddressRange& range_a = a->reserved;
    const AddressRange& range_b = b->reserved;
    return range_a.bytes != range_b.bytes ? range_a.bytes > range_b.bytes
                                          : range_a.begin < range_b.begin;
  });
  std::vector<size_t> sizes;
  for (const View* view : whole) sizes.push_back(view->reserved.bytes);
  size_t released_bytes = 0;
  for (const size_t i : select_for_trim(sizes, wanted_bytes)) {
    if (segments_.release(*whole[i], wait)) released_bytes += sizes[i];
  }
  return released_bytes;
}

bool Trimmer::are_all_streams_idle() {
  for (const auto& [id, pool] : pools_.all()) {
    for (const auto& [stream, arena] : pool->arenas) {
      if (streams_.is_capturing(stream) || !streams_.is_idle(stream)) return false;
    }
  }
  return true;
}

}  // namespace ashlar::paged
