// SPDX-License-Identifier: Apache-2.0
//
// Private pools: who holds them, and which allocations go to them. And the arenas, which are made
// when a stream first asks.
#include <algorithm>

#include "base/text.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {

PagedPool* PagedEngine::find_pool(PoolId pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() ? nullptr : found->second.get();
}

PagedPool& PagedEngine::add_pool(PoolId pool, PoolOptions options) {
  const bool is_plain = granule_bytes_ == 0 || options.source != nullptr || options.no_split;
  auto made = std::make_unique<PagedPool>(pool, std::move(options), is_plain);
  return *pools_.emplace(pool, std::move(made)).first->second;
}

// What its arenas have counted stays in the sums.
void PagedEngine::erase_pool(PoolId pool) {
  const auto found = pools_.find(pool);
  const std::unique_ptr<PagedPool> erased = std::move(found->second);
  pools_.erase(found);
  routes_.forget(pool);
  keep_events_of(*erased);
  MutexLock lock(counting_mutex_);
  for (const auto& [stream, arena] : erased->arenas) {
    for (Heap& heap : arena->heaps) {
      Counters& kept = retired_[stream][heap.is_small ? 1 : 0];
      kept.risen.add(heap.counters.risen);
      kept.fallen.add(heap.counters.fallen);
      kept.allocated_at_reset.add(heap.counters.allocated_at_reset);
      kept.active_at_reset.add(heap.counters.active_at_reset);
    }
    std::erase(arenas_, arena.get());
  }
  stats_.pools.erase(pool);
}

void PagedEngine::keep_events_of(PagedPool& pool) {
  for (const auto& [stream, arena] : pool.arenas) {
    if (arena->marker) give_back_event(*std::exchange(arena->marker, std::nullopt));
  }
  for (const Retirement& retirement : std::exchange(pool.retired, {})) {
    for (const EventId event : retirement.events) give_back_event(event);
  }
}

Status PagedEngine::create_pool(PoolId pool, PoolOptions options) {
  if (options.never_remap && !options.tag.empty()) {
    return Status::invalid_argument(
        text("the tag \"", options.tag,
             "\" is for pausing, which maps memory anew: a pool that never remaps "
             "cannot have one"));
  }
  MutexLock lock(mutex_);
  if (Status created = routes_.create(pool); !created.ok()) return created;
  add_pool(pool, std::move(options));
  return {};
}

Status PagedEngine::retain_pool(PoolId pool) {
  MutexLock lock(mutex_);
  return routes_.retain(pool);
}

Status PagedEngine::release_pool(PoolId pool) {
  MutexLock lock(mutex_);
  return routes_.release(pool);
}

Result<int> PagedEngine::pool_use_count(PoolId pool) const {
  MutexLock lock(mutex_);
  return routes_.use_count(pool);
}

Status PagedEngine::begin_routing(PoolId pool, RouteFilter filter) {
  MutexLock lock(mutex_);
  if (Status begun = routes_.begin(pool, std::move(filter)); !begun.ok()) return begun;
  if (find_pool(pool) == nullptr) add_pool(pool, {});
  ++route_count_;
  refresh();
  return {};
}

Status PagedEngine::end_routing(PoolId pool) {
  RouteFilter ended;  // the user's, and dropped without the lock
  MutexLock lock(mutex_);
  Result<RouteFilter> filter = routes_.end(pool);
  if (!filter.ok()) return filter.status();
  ended = *std::move(filter);
  --route_count_;
  waiting_.clear_graph_cache();
  refresh();
  return {};
}

void PagedEngine::capture_began() {
  MutexLock lock(mutex_);
  waiting_.capture_began();
  refresh();
}

Status PagedEngine::capture_ended() {
  MutexLock lock(mutex_);
  Status ended = waiting_.capture_ended();
  refresh();
  return ended;
}

// --- arenas
// ---------------------------------------------------------------------------------------

Arena& PagedEngine::arena_of(PagedPool& pool, StreamId stream) {
  MutexLock lock(counting_mutex_);
  std::unique_ptr<Arena>& arena = pool.arenas[stream];
  if (arena == nullptr) {
    arena = std::make_unique<Arena>(pool, stream, ++last_arena_, addresses_);
    arena->pool_usage = &stats_.pools[pool.id];
    arena->stream_usage = &stats_.streams[stream];
    arenas_.push_back(arena.get());
  }
  return *arena;
}

Arena& PagedEngine::find_default_arena(StreamId stream) {
  MutexLock lock(mutex_);
  Arena& arena = arena_of(*default_pool_, stream);
  default_arenas_.note(arena);
  return arena;
}

}  // namespace ashlar::paged
