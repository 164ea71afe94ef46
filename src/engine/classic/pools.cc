// SPDX-License-Identifier: Apache-2.0
//
// Private pools: who holds them, and which allocations go to them.
#include <algorithm>

#include "base/text.h"
#include "engine/classic/classic_engine.h"

namespace ashlar::classic {

FreePool& ClassicEngine::pool_for(size_t block_bytes, StreamId stream) {
  const bool is_small = SizePolicy::is_small(block_bytes);
  const PoolId id = routes_.pool_for(stream);
  if (id.is_default()) return is_small ? small_ : large_;
  PrivatePool& pool = *pools_.at(id);
  return is_small ? pool.small : pool.large;
}

PrivatePool* ClassicEngine::find_pool(PoolId pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() ? nullptr : found->second.get();
}

Status ClassicEngine::create_pool(PoolId pool, PoolOptions options) {
  MutexLock lock(mutex_);
  Status created = routes_.create(pool);
  if (created.ok()) add_pool(pool, std::move(options));
  return created;
}

void ClassicEngine::add_pool(PoolId pool, PoolOptions options) {
  if (options.source == nullptr && source_.serves_pools) options.source = source_.source;
  pools_.emplace(pool, std::make_unique<PrivatePool>(pool, std::move(options), stats_.pools[pool]));
}

Status ClassicEngine::retain_pool(PoolId pool) {
  MutexLock lock(mutex_);
  return routes_.retain(pool);
}

Status ClassicEngine::release_pool(PoolId pool) {
  MutexLock lock(mutex_);
  return routes_.release(pool);
}

Result<int> ClassicEngine::pool_use_count(PoolId pool) const {
  MutexLock lock(mutex_);
  return routes_.use_count(pool);
}

Status ClassicEngine::begin_routing(PoolId pool, RouteFilter filter) {
  MutexLock lock(mutex_);
  Status begun = routes_.begin(pool, std::move(filter));
  if (begun.ok() && find_pool(pool) == nullptr) add_pool(pool, {});
  return begun;
}

Status ClassicEngine::end_routing(PoolId pool) {
  Result<RouteFilter> ended = Status();  // the filter is dropped without the lock
  MutexLock lock(mutex_);
  ended = routes_.end(pool);
  if (ended.ok()) waiting_.clear_graph_cache();
  return ended.status();
}

Result<std::vector<DeviceAddress>> ClassicEngine::live_in_pool(PoolId pool) const {
  MutexLock lock(mutex_);
  const PrivatePool* wanted = find_pool(pool);
  if (wanted == nullptr && !pool.is_default()) return no_such_pool(pool);
  std::vector<DeviceAddress> live;
  blocks_.for_each([&](const ClassicBlock* block) {
    const bool counts = block->is_allocated() && block->pool->owner() == wanted;
    if (counts) live.push_back(block->address);
  });
  std::sort(live.begin(), live.end());
  return live;
}

void ClassicEngine::capture_began() {
  MutexLock lock(mutex_);
  waiting_.capture_began();
}

Status ClassicEngine::capture_ended() {
  MutexLock lock(mutex_);
  return waiting_.capture_ended();
}

}  // namespace ashlar::classic
