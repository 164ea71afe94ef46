// SPDX-License-Identifier: Apache-2.0
//
// Memory back to the device because somebody asks for it: whole extents that nobody uses, and whole
// segments. They are taken out of circulation first; then whoever used them must be done, which the
// host waits for or looks at; and only then the device gets them back.
#include <algorithm>

#include "device/relaxed_capture.h"
#include "device/stream_use.h"
#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {

Status PagedEngine::trim(PoolId pool, StackId stack) {
  const Status released = [&] {
    MutexLock lock(mutex_);
    caller_stack_ = stack;
    if (!pool.is_default() && find_pool(pool) == nullptr) return no_such_pool(pool);
    Status status = release_cached(pool);
    finish_trim();
    return status.ok() ? std::exchange(deferred_error_, {}) : status;
  }();
  settle();
  hooks_.notify();
  remaps_.notify();
  return released;
}

Result<size_t> PagedEngine::trim_to(const TrimTarget& target) {
  Result<size_t> given = [&]() -> Result<size_t> {
    MutexLock lock(mutex_);
    caller_stack_ = target.stack;
    Result<size_t> bytes = release_down_to(target);
    finish_trim();
    if (bytes.ok() && !deferred_error_.ok()) return std::exchange(deferred_error_, {});
    return bytes;
  }();
  settle();
  hooks_.notify();
  remaps_.notify();
  return given;
}

void PagedEngine::finish_trim() {
  retire_mappings();
  free_stale_backups();
  give_back_to_sources();
  refresh();
}

Status PagedEngine::release_cached(PoolId pool) {
  if (pool.is_default() && waiting_.capture_count() == 0) {
    if (Status waited = wait_for_waiting({}); !waited.ok()) return waited;
  }
  for (const PoolId id : trimmable_pools()) {
    if (!pool.is_default() && id != pool) continue;
    if (!pool.is_default()) {
      if (Status waited = wait_for_waiting(pool); !waited.ok()) return waited;
    }
    release_memory(id, SIZE_MAX, TrimWait::kForWork);
  }
  give_back_to_sources();
  wait_for_sources();
  return {};
}

Result<size_t> PagedEngine::release_down_to(const TrimTarget& target) {
  const RelaxedCapture relaxed(device_, waiting_.capture_count());
  if (!relaxed.status().ok()) return relaxed.status();
  const bool may_wait = target.wait == TrimWait::kForWork;
  Status collected = may_wait ? wait_for_waiting({}) : collect_finished();
  if (!collected.ok()) return collected;
  size_t given_bytes = 0;
  for (const PoolId id : trimmable_pools()) {
    if (held_bytes_ <= target.reserved_bytes) break;
    given_bytes += release_memory(id, held_bytes_ - target.reserved_bytes, target.wait);
  }
  return given_bytes;
}

Status PagedEngine::collect_finished() {
  std::vector<Block*> finished;
  Status collected = waiting_.collect(finished);
  make_all_free(finished);
  return collected;
}

// Those that nobody holds come first, since nobody will ask for their memory again. By name: pools
// may come and go while observers are told.
std::vector<PoolId> PagedEngine::trimmable_pools() const {
  std::vector<PoolId> ids;
  for (const auto& [id, pool] : pools_) {
    if (!id.is_default() && routes_.is_freeable(id)) ids.push_back(id);
  }
  if (waiting_.capture_count() == 0) ids.push_back({});
  return ids;
}

size_t PagedEngine::release_memory(PoolId id, size_t wanted_bytes, TrimWait wait) {
  PagedPool* pool = find_pool(id);
  if (pool == nullptr || pool->is_changing) return 0;
  size_t given_bytes = release_extents(*pool, wanted_bytes, wait);
  if (given_bytes < wanted_bytes) {
    given_bytes += release_segments(*pool, wanted_bytes - given_bytes, wait);
  }
  // Observers may have been told since, and others may have been here.
  pool = find_pool(id);
  const bool is_needed = pool == nullptr || id.is_default() || !routes_.is_freeable(id) ||
                         pool->has_memory() || pool->search_count != 0 || pool->is_changing;
  if (!is_needed) erase_pool(id);
  return given_bytes;
}

// --- extents ------------------------------------------------------------------------------------

size_t PagedEngine::release_extents(PagedPool& pool, size_t wanted_bytes, TrimWait wait) {
  Progress progress;
  for (const auto& [stream, arena] : pool.arenas) {
    if (!waiting_.is_waitable({&device_, stream})) continue;  // it can be neither asked nor awaited
    progress.lenders.insert(arena.get());
    const bool may_ask = wait == TrimWait::kNever && waiting_.capture_count() == 0;
    if (may_ask) ask_progress(*arena, progress);
  }
  const RelaxedCapture relaxed(device_, waiting_.capture_count());
  Status ready = relaxed.status();
  std::vector<Extent*> leaving;
  if (ready.ok()) {
    AllArenas lock(pool);
    for (const auto& [stream, arena] : pool.arenas) arena->flush();
    leaving = take_idle(pool, wanted_bytes, wait, progress);
  }
  if (wait == TrimWait::kNever) {
    set_apart_busy(leaving, progress);
  } else {
    std::set<const Arena*> used_by;
    for (const Extent* extent : leaving) used_by.insert(extent->arena);
    for (const Arena* arena : used_by) {
      if (ready.ok()) ready = waiting_.wait_for_stream({&device_, arena->stream});
    }
  }
  if (!ready.ok()) {
    defer_error(std::move(ready));
    return 0;
  }
  return give_back(pool, leaving);
}

// What the device says about an arena's stream: for once that nothing is left to do there, and
// whether it has passed the marker that an earlier trim left.
void PagedEngine::ask_progress(Arena& arena, Progress& progress) {
  if (is_stream_idle(arena.stream)) progress.idle.insert(&arena);
  if (!arena.marker) return;
  Result<bool> done = device_.is_done(*arena.marker);
  if (!done.ok()) defer_error(done.status());
  if (!done.ok() || !*done) return;
  progress.passed[&arena] = arena.marker_round;
  give_back_event(*std::exchange(arena.marker, std::nullopt));
}

// kInvalidArgument: asking could break a capture, of which nobody may have told; or the stream is
// gone, and says nothing about what it had left to do.
Result<bool> PagedEngine::ask_idle(StreamId stream) {
  // Where captures go on, any stream may begin one even now.
  if (waiting_.capture_count() > 0) return Status::invalid_argument("a capture goes on");
  const RelaxedCapture relaxed(device_);
  if (!relaxed.status().ok()) return relaxed.status();
  if (device_.properties().has_capture) {
    const Result<CaptureState> state = device_.capture_state(stream);
    if (!state.ok()) return state.status();
    if (state->status != CaptureStatus::kNone)
      return Status::invalid_argument("the stream captures");
  }
  return device_.is_idle(stream);
}

bool PagedEngine::is_stream_idle(StreamId stream) {
  const Result<bool> idle = ask_idle(stream);
  if (!idle.ok() && !idle.status().is(StatusKind::kInvalidArgument)) defer_error(idle.status());
  return idle.ok() && *idle;
}

// REQUIRES: the locks of the pool's arenas. What leaves has no home any more: only a miss could use
// it, and none comes while we are locked.
//
// First what an earlier trim set apart and nobody has wanted since. Then what is cheapest to have
// again: getting an extent costs about the same whatever its size, and every mapping of it that
// goes would have to be made again too, so that the most bytes for each mapping go first.
std::vector<Extent*> PagedEngine::take_idle(PagedPool& pool, size_t wanted_bytes, TrimWait wait,
                                            const Progress& progress) {
  if (pool.options.never_remap && pool.has_active()) return {};
  mark_idle(pool, progress.lenders, nullptr);
  std::vector<Extent*> idle;
  std::vector<Extent*> busy;
  pool.idle.for_each_idle([&](uint32_t number) {
    Extent* extent = pool.extents[number - 1].get();
    if (extent->is_leaving) return;
    const bool is_over = wait == TrimWait::kForWork || progress.has_passed(*extent) ||
                         progress.idle.contains(extent->arena);
    (is_over ? idle : busy).push_back(extent);
  });
  const auto take_from = [&](std::vector<Extent*>& extents, size_t bytes) ASHLAR_REQUIRES(mutex_) {
    std::sort(extents.begin(), extents.end(), [&](const Extent* a, const Extent* b) {
      if (progress.has_passed(*a) != progress.has_passed(*b)) return progress.has_passed(*a);
      const size_t gain_a = a->bytes * (b->mappings.size() + 1);
      const size_t gain_b = b->bytes * (a->mappings.size() + 1);
      return gain_a != gain_b ? gain_a > gain_b : a->position < b->position;
    });
    std::vector<size_t> sizes;
    for (const Extent* extent : extents) sizes.push_back(extent->bytes);
    std::vector<Extent*> taken;
    for (const size_t i : select_for_trim(sizes, bytes)) {
      if (extents[i]->home != nullptr) carve(*extents[i]);
      taken.push_back(extents[i]);
    }
    return taken;
  };
  std::vector<Extent*> taken = take_from(idle, wanted_bytes);
  size_t taken_bytes = 0;
  for (const Extent* extent : taken) taken_bytes += extent->bytes;
  if (taken_bytes >= wanted_bytes) return taken;
  const std::vector<Extent*> later = take_from(busy, wanted_bytes - taken_bytes);
  taken.insert(taken.end(), later.begin(), later.end());
  return taken;
}

// What may still be in use stays, and a marker in its stream tells the next trim when it is not:
// a stream that always has something to do is never idle, but passes its markers. A request may use
// the memory meanwhile; then it is not set apart any more.
void PagedEngine::set_apart_busy(std::vector<Extent*>& leaving, Progress& progress) {
  // Asked again: work may have been queued between the first answer and the locks.
  std::erase_if(progress.idle, [&](const Arena* arena) ASHLAR_REQUIRES(mutex_) {
    return !is_stream_idle(arena->stream);
  });
  std::map<Arena*, std::vector<Extent*>> busy;
  std::erase_if(leaving, [&](Extent* extent) {
    const bool is_over = progress.has_passed(*extent) || progress.idle.contains(extent->arena);
    if (!is_over) busy[extent->arena].push_back(extent);
    return !is_over;
  });
  for (const auto& [arena, extents] : busy) {
    if (arena->marker) continue;  // they wait for the one after it
    const Result<EventId> marker = record_on(*arena);
    if (!marker.ok()) continue;
    arena->marker = *marker;
    ++arena->marker_round;
    for (Extent* extent : extents) extent->marked_round = arena->marker_round;
  }
}

size_t PagedEngine::give_back(PagedPool& pool, const std::vector<Extent*>& leaving) {
  size_t given_bytes = 0;
  ++pool.trim_count;
  announce_leaving(leaving);
  for (Extent* extent : leaving) {
    const size_t bytes = extent->is_dropped ? 0 : extent->bytes;
    if (release_extent(pool, extent)) {
      given_bytes += bytes;
    } else {
      stay(*extent);
    }
  }
  --pool.trim_count;
  changed_.notify_all();
  release_empty_views(pool);
  return given_bytes;
}

void PagedEngine::release_empty_views(PagedPool& pool) {
  std::vector<View*> empty;
  for (const auto& view : pool.views) {
    const bool has_any = std::any_of(view->slots.begin(), view->slots.end(),
                                     [](const Slot& slot) { return slot.extent != nullptr; });
    if (!view->is_plain && !has_any) empty.push_back(view.get());
  }
  for (View* view : empty) release_view(*view);
}

// --- segments -----------------------------------------------------------------------------------

// Taking one back, a driver may wait for all of the device: unless we may wait too, they go only
// while every stream we know of is idle. The largest first, for which the fewest calls are needed.
size_t PagedEngine::release_segments(PagedPool& pool, size_t wanted_bytes, TrimWait wait) {
  std::vector<View*> whole;
  {
    AllArenas lock(pool);
    for (const auto& [stream, arena] : pool.arenas) arena->flush();
    for (const auto& view : pool.views) {
      if (view->is_plain && view->first == view->last && view->first->is_in_ranges()) {
        whole.push_back(view.get());
      }
    }
  }
  if (whole.empty() || (wait == TrimWait::kNever && !are_all_idle())) return 0;
  std::sort(whole.begin(), whole.end(), [](const View* a, const View* b) {
    const AddressRange& range_a = a->reserved;
    const AddressRange& range_b = b->reserved;
    return range_a.bytes != range_b.bytes ? range_a.bytes > range_b.bytes
                                          : range_a.begin < range_b.begin;
  });
  std::vector<size_t> sizes;
  for (const View* view : whole) sizes.push_back(view->reserved.bytes);
  size_t given_bytes = 0;
  for (const size_t i : select_for_trim(sizes, wanted_bytes)) {
    if (release_plain(*whole[i], wait)) given_bytes += sizes[i];
  }
  return given_bytes;
}

bool PagedEngine::are_all_idle() {
  for (const auto& [id, pool] : pools_) {
    for (const auto& [stream, arena] : pool->arenas) {
      if (waiting_.is_capturing({&device_, stream}) || !is_stream_idle(stream)) return false;
    }
  }
  return true;
}

void PagedEngine::give_back_to_sources() {
  while (!return_queue_.empty()) {
    MutexUnlock unlocked(mutex_);
    return_queue_.flush(device_);
  }
}

// What other threads are giving back is nobody's until it arrives.
void PagedEngine::wait_for_sources() {
  if (!return_queue_.is_flushed_elsewhere()) return;
  MutexUnlock unlocked(mutex_);
  return_queue_.wait_for_others();
}

// --- events -------------------------------------------------------------------------------------

Result<EventId> PagedEngine::record_on(const Arena& arena) {
  Result<EventId> event = EventId();
  if (spare_events_.empty()) {
    event = device_.create_event();
  } else {
    event = spare_events_.back();
    spare_events_.pop_back();
  }
  if (!event.ok()) {
    defer_error(event.status());
    return event;
  }
  Status recorded = device_.record_event(*event, arena.stream);
  if (recorded.ok()) return event;
  give_back_event(*event);
  if (!recorded.is(StatusKind::kInvalidArgument))
    defer_error(recorded);  // a stream that is gone is no mistake
  return recorded;
}

}  // namespace ashlar::paged
