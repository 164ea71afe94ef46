// SPDX-License-Identifier: Apache-2.0
//
// Routes the allocations of single threads to pools: the filter of each pool accepts only threads
// that have selected that pool.
#pragma once

#include <utility>

#include "engine/engine.h"

namespace ashlar::stress {

inline thread_local PoolId selected_pool;

inline RouteFilter when_selected(PoolId pool) {
  return [pool](StreamId) { return selected_pool == pool; };
}

// Selects a pool for this thread during the object's lifetime.
class PoolSelection {
 public:
  explicit PoolSelection(PoolId pool) : previous_(std::exchange(selected_pool, pool)) {}
  ~PoolSelection() { selected_pool = previous_; }
  PoolSelection(const PoolSelection&) = delete;
  PoolSelection& operator=(const PoolSelection&) = delete;

 private:
  const PoolId previous_;
};

// Releases the pool until its use count is 0. A later trim returns the pool's memory.
inline void release_pool_fully(Engine& engine, PoolId pool) {
  while (engine.pool_use_count(pool).ok() && *engine.pool_use_count(pool) > 0) {
    if (!engine.release_pool(pool).ok()) return;
  }
}

}  // namespace ashlar::stress
