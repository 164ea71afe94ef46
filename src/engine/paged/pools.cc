// Private pools: who holds them, and which allocations go to them. And the arenas, which are made
// when a stream first asks.
#include <algorithm>

#include "base/text.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

std::string to_text(PoolId pool) { return text("{", pool.capture, ", ", pool.user, "}"); }

}  // namespace

Status PagedEngine::no_such_pool(PoolId pool) {
  return Status::usage(text("there is no pool ", to_text(pool)));
}

// The route named last wins.
PagedPool& PagedEngine::pool_for(StreamId stream) {
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->filter(stream)) return *pools_.at(route->pool);
  }
  return *default_pool_;
}

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
  MutexLock lock(counting_mutex_);
  for (const auto& [stream, arena] : erased->arenas) {
    for (Heap& heap : arena->heaps) {
      Counters& kept = retired_[stream][heap.is_small ? 1 : 0];
      kept.risen.add(heap.counters.risen);
      kept.allocated_at_reset.add(heap.counters.allocated_at_reset);
      kept.active_at_reset.add(heap.counters.active_at_reset);
    }
    std::erase(arenas_, arena.get());
  }
  stats_.pools.erase(pool);
}

Status PagedEngine::create_pool(PoolId pool, PoolOptions options) {
  MutexLock lock(mutex_);
  if (pool.is_default()) return Status::usage("the default pool is always there");
  if (find_pool(pool) != nullptr) {
    return Status::usage(text("there is a pool ", to_text(pool), " already"));
  }
  add_pool(pool, std::move(options));
  return {};
}

Status PagedEngine::retain_pool(PoolId pool) {
  MutexLock lock(mutex_);
  PagedPool* found = find_pool(pool);
  if (found == nullptr || pool.is_default()) return no_such_pool(pool);
  if (found->is_freeable()) return Status::usage(text("pool ", to_text(pool), " was let go"));
  ++found->use_count;
  return {};
}

Status PagedEngine::release_pool(PoolId pool) {
  MutexLock lock(mutex_);
  PagedPool* found = find_pool(pool);
  if (found == nullptr || pool.is_default()) return no_such_pool(pool);
  if (found->is_freeable()) {
    return Status::usage(text("pool ", to_text(pool), " was let go more often than held"));
  }
  --found->use_count;
  return {};
}

Result<int> PagedEngine::pool_use_count(PoolId pool) const {
  MutexLock lock(mutex_);
  const PagedPool* found = find_pool(pool);
  if (found == nullptr || pool.is_default()) return no_such_pool(pool);
  return found->use_count;
}

Status PagedEngine::begin_routing(PoolId pool, RouteFilter filter) {
  MutexLock lock(mutex_);
  if (pool.is_default()) return Status::usage("the default pool needs no routing");
  if (is_routed_to(pool)) {
    return Status::usage(text("allocations are routed to pool ", to_text(pool), " already"));
  }
  PagedPool* found = find_pool(pool);
  if (found != nullptr && found->is_freeable()) {
    return Status::usage(text("pool ", to_text(pool), " was let go"));
  }
  if (found != nullptr) {
    ++found->use_count;
  } else {
    add_pool(pool, {});
  }
  routes_.push_back({pool, std::move(filter)});
  refresh();
  return {};
}

bool PagedEngine::is_routed_to(PoolId pool) const {
  return std::any_of(routes_.begin(), routes_.end(),
                     [&](const Route& route) { return route.pool == pool; });
}

Status PagedEngine::end_routing(PoolId pool) {
  std::vector<Route> ended;  // the filter is the user's: it goes when we are unlocked
  MutexLock lock(mutex_);
  const auto found = std::find_if(routes_.begin(), routes_.end(),
                                  [&](const Route& route) { return route.pool == pool; });
  if (found == routes_.end()) {
    return Status::usage(text("allocations are not routed to pool ", to_text(pool)));
  }
  ended.push_back(std::move(*found));
  routes_.erase(found);
  waiting_.forget_graphs();
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
    arena = std::make_unique<Arena>(pool, stream, ++last_arena_);
    arena->pool_usage = &stats_.pools[pool.id];
    arena->stream_usage = &stats_.streams[stream];
    arenas_.push_back(arena.get());
  }
  return *arena;
}

// A thread mostly works on one stream of one engine, and arenas of the default pool live as long as
// their engine, whose serial nobody else ever has.
Arena& PagedEngine::default_arena(StreamId stream) {
  struct Last {
    uint64_t engine = 0;
    StreamId stream{};
    Arena* arena = nullptr;
  };
  thread_local Last last;
  if (last.engine == serial_ && last.stream == stream) return *last.arena;
  MutexLock lock(mutex_);
  last = {serial_, stream, &arena_of(*default_pool_, stream)};
  return *last.arena;
}

}  // namespace ashlar::paged
