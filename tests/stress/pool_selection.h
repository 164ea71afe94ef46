// SPDX-License-Identifier: Apache-2.0
//
// Routes one thread's allocations to a pool: each pool's filter checks which pool the calling
// thread has selected.
#pragma once

#include <utility>

#include "engine/engine.h"

namespace ashlar::stress {

inline thread_local PoolId wanted_pool;

inline RouteFilter when_selected(PoolId pool) {
  return [pool](StreamId) { return wanted_pool == pool; };
}

// Selects a pool for this thread while alive.
class PoolSelection {
 public:
  explicit PoolSelection(PoolId pool) : before_(std::exchange(wanted_pool, pool)) {}
  ~PoolSelection() { wanted_pool = before_; }
  PoolSelection(const PoolSelection&) = delete;
  PoolSelection& operator=(const PoolSelection&) = delete;

 private:
  const PoolId before_;
};

// Releases the pool until its use count is 0. A later trim returns its memory.
inline void release_pool_fully(Engine& engine, PoolId pool) {
  while (engine.pool_use_count(pool).ok() && *engine.pool_use_count(pool) > 0) {
    if (!engine.release_pool(pool).ok()) return;
  }
}

}  // namespace ashlar::stress
