// Private pools: who holds them, and which allocations go to them.
#include <algorithm>

#include "base/text.h"
#include "engine/classic/classic_engine.h"

namespace ashlar::classic {
namespace {

std::string to_text(PoolId pool) { return text("{", pool.capture, ", ", pool.user, "}"); }

}  // namespace

Status ClassicEngine::no_such_pool(PoolId pool) {
  return Status::usage(text("there is no pool ", to_text(pool)));
}

// The route named last wins.
FreePool& ClassicEngine::pool_for(size_t block_bytes, StreamId stream) {
  const bool is_small = SizePolicy::is_small(block_bytes);
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (!route->filter(stream)) continue;
    PrivatePool& pool = *pools_.at(route->pool);
    return is_small ? pool.small : pool.large;
  }
  return is_small ? small_ : large_;
}

PrivatePool* ClassicEngine::find_pool(PoolId pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() ? nullptr : found->second.get();
}

Status ClassicEngine::create_pool(PoolId pool, PoolOptions options) {
  MutexLock lock(mutex_);
  if (pool.is_default()) return Status::usage("the default pool is always there");
  if (find_pool(pool) != nullptr) {
    return Status::usage(text("there is a pool ", to_text(pool), " already"));
  }
  add_pool(pool, std::move(options));
  return {};
}

void ClassicEngine::add_pool(PoolId pool, PoolOptions options) {
  pools_.emplace(pool, std::make_unique<PrivatePool>(pool, std::move(options), stats_.pools[pool]));
}

Status ClassicEngine::retain_pool(PoolId pool) {
  MutexLock lock(mutex_);
  PrivatePool* found = find_pool(pool);
  if (found == nullptr) return no_such_pool(pool);
  if (found->is_freeable()) return Status::usage(text("pool ", to_text(pool), " was let go"));
  ++found->use_count;
  return {};
}

Status ClassicEngine::release_pool(PoolId pool) {
  MutexLock lock(mutex_);
  PrivatePool* found = find_pool(pool);
  if (found == nullptr) return no_such_pool(pool);
  if (found->is_freeable()) {
    return Status::usage(text("pool ", to_text(pool), " was let go more often than held"));
  }
  --found->use_count;
  return {};
}

Result<int> ClassicEngine::pool_use_count(PoolId pool) const {
  MutexLock lock(mutex_);
  const PrivatePool* found = find_pool(pool);
  if (found == nullptr) return no_such_pool(pool);
  return found->use_count;
}

Status ClassicEngine::begin_routing(PoolId pool, RouteFilter filter) {
  MutexLock lock(mutex_);
  if (pool.is_default()) return Status::usage("the default pool needs no routing");
  if (is_routed_to(pool)) {
    return Status::usage(text("allocations are routed to pool ", to_text(pool), " already"));
  }
  PrivatePool* found = find_pool(pool);
  if (found != nullptr && found->is_freeable()) {
    return Status::usage(text("pool ", to_text(pool), " was let go"));
  }
  if (found != nullptr) {
    ++found->use_count;
  } else {
    add_pool(pool, {});
  }
  routes_.push_back({pool, std::move(filter)});
  return {};
}

bool ClassicEngine::is_routed_to(PoolId pool) const {
  const auto same = [&](const Route& route) { return route.pool == pool; };
  return std::any_of(routes_.begin(), routes_.end(), same);
}

Status ClassicEngine::end_routing(PoolId pool) {
  MutexLock lock(mutex_);
  const auto same = [&](const Route& route) { return route.pool == pool; };
  if (std::erase_if(routes_, same) == 0) {
    return Status::usage(text("allocations are not routed to pool ", to_text(pool)));
  }
  behind_.clear();  // the captures it knew of are over, or will be walked again
  return {};
}

Result<std::vector<DeviceAddress>> ClassicEngine::live_in_pool(PoolId pool) const {
  MutexLock lock(mutex_);
  const PrivatePool* wanted = find_pool(pool);
  if (wanted == nullptr && !pool.is_default()) return no_such_pool(pool);
  std::vector<DeviceAddress> live;
  blocks_.for_each([&](const Block* block) {
    const bool counts = block->is_allocated() && block->pool->owner() == wanted;
    if (counts) live.push_back(block->address);
  });
  std::sort(live.begin(), live.end());
  return live;
}

void ClassicEngine::capture_began() {
  MutexLock lock(mutex_);
  ++capture_count_;
}

Status ClassicEngine::capture_ended() {
  MutexLock lock(mutex_);
  if (capture_count_ == 0) return Status::usage("no capture has begun that could end");
  --capture_count_;
  return {};
}

}  // namespace ashlar::classic
