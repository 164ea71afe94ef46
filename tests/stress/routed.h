// SPDX-License-Identifier: Apache-2.0
//
// Allocations of one thread that go to a pool: the filter of each pool asks which one its caller
// wants.
#pragma once

#include <utility>

#include "engine/engine.h"

namespace ashlar::stress {

inline thread_local PoolId wanted_pool;

inline RouteFilter when_wanted(PoolId pool) {
  return [pool](StreamId) { return wanted_pool == pool; };
}

// While it lives, this thread wants the pool.
class Wanted {
 public:
  explicit Wanted(PoolId pool) : before_(std::exchange(wanted_pool, pool)) {}
  ~Wanted() { wanted_pool = before_; }
  Wanted(const Wanted&) = delete;
  Wanted& operator=(const Wanted&) = delete;

 private:
  const PoolId before_;
};

// Nobody needs the pool any more: its memory returns with one of the next trims.
inline void let_go_of_pool(Engine& engine, PoolId pool) {
  while (engine.pool_use_count(pool).ok() && *engine.pool_use_count(pool) > 0) {
    if (!engine.release_pool(pool).ok()) return;
  }
}

}  // namespace ashlar::stress
