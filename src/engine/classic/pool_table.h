// SPDX-License-Identifier: Apache-2.0
//
// The pools of a classic engine: the default pool, private pools for captures and users, and the
// routing of streams to pools. Guarded by the engine's lock.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ashlar/pool.h"
#include "base/routes.h"
#include "engine/classic/free_pool.h"
#include "engine/classic/stats_recorder.h"
#include "engine/return_queue.h"

namespace ashlar::classic {

// The source of an engine's segments. By default, the engine takes segments from the device. A
// private pool may have its own source in either case.
struct SourceConfig {
  std::shared_ptr<SegmentSource> source{};  // null: the device. Shared with the engine's creator.
  // If true, the default pool caches no memory: each request is passed to the source with its exact
  // size, and each free is passed on even if work on the block's stream is still queued. Private
  // pools cache segments in either case, because graphs rely on stable addresses.
  bool is_pass_through = false;
  // If true, private pools without their own source use `source` instead of the device.
  bool serves_private_pools = true;
  // Whether the source itself caches device memory; see ClassicEngine::source_cached_bytes.
  bool caches = false;
};

// A pool other than the default one. Routes counts the references to the pool.
// PoolTable::erase_empty destroys the pool if it is freeable, has no segment left and serves no
// allocation in progress.
struct PrivatePool {
  PrivatePool(PoolId pool_id, PoolOptions pool_options, UsageStats& usage)
      : id(pool_id),
        options(std::move(pool_options)),
        large(false, this, usage),
        small(true, this, usage) {}

  const PoolId id;
  PoolOptions options;
  int64_t segment_count = 0;  // plain and expandable segments
  int in_flight_count = 0;    // allocations in progress, which may have released the lock
  FreePool large;
  FreePool small;

  bool has_custom_source() const { return options.source != nullptr; }
};

// Keeps a private pool alive while an allocation from it is in progress, even if the pool is
// released while the allocation does not hold the lock.
class InFlightAllocation {
 public:
  // `pool` is null for the default pool.
  explicit InFlightAllocation(PrivatePool* pool) : pool_(pool) {
    if (pool_ != nullptr) ++pool_->in_flight_count;
  }
  ~InFlightAllocation() {
    if (pool_ != nullptr) --pool_->in_flight_count;
  }
  InFlightAllocation(const InFlightAllocation&) = delete;
  InFlightAllocation& operator=(const InFlightAllocation&) = delete;

 private:
  PrivatePool* const pool_;
};

class PoolTable {
 public:
  // `stats` and `returns` outlive the table.
  PoolTable(StatsRecorder& stats, ReturnQueue& returns, SourceConfig source);

  FreePool& small() { return small_; }
  FreePool& large() { return large_; }
  FreePool& pool_for(size_t block_bytes, StreamId stream);
  PrivatePool* find(PoolId pool) const;  // null if there is none
  // Returns whether this table contains the pool. REQUIRES: the pool exists.
  bool contains(const FreePool& pool) const {
    const PrivatePool* owner = pool.owner();
    return owner == nullptr ? &pool == &small_ || &pool == &large_ : find(owner->id) == owner;
  }

  // The next seven functions work like those of Routes.
  Status create(PoolId pool, PoolOptions options);
  Status retain(PoolId pool) { return routes_.retain(pool); }
  Status release(PoolId pool) { return routes_.release(pool); }
  Result<int> use_count(PoolId pool) const { return routes_.use_count(pool); }
  Status begin_routing(PoolId pool, RouteFilter&& filter);
  Result<RouteFilter> end_routing(PoolId pool) { return routes_.end(pool); }
  bool is_freeable(PoolId pool) const { return routes_.is_freeable(pool); }

  // Returns the source of a pool's memory. Null means the device.
  const std::shared_ptr<SegmentSource>& source_of(const FreePool& pool) const {
    return pool.owner() == nullptr ? source_.source : pool.owner()->options.source;
  }
  bool is_pass_through(const FreePool& pool) const {
    return source_.is_pass_through && pool.owner() == nullptr;
  }
  bool source_caches() const { return source_.caches; }

  // Returns all private pools, sorted by id.
  std::vector<PrivatePool*> private_pools() const;
  // Returns all private pools that are freeable (Routes::is_freeable), sorted by id.
  std::vector<PrivatePool*> freeable_pools() const;
  // Returns the small and the large FreePool of every pool.
  std::vector<const FreePool*> all_free_pools() const;
  // Destroys the private pools that are freeable, have no segment and serve no allocation in
  // progress: only `pool`, or all such pools if `pool` is the default one. References to custom
  // sources are released through the return queue, because releasing them may run user code.
  void erase_empty(PoolId pool);

 private:
  void add(PoolId pool, PoolOptions options);

  StatsRecorder& stats_;
  ReturnQueue& returns_;  // has a reservation for every pool with a custom source
  const SourceConfig source_;
  FreePool large_;
  FreePool small_;
  std::map<PoolId, std::unique_ptr<PrivatePool>> pools_;
  Routes routes_;  // contains the same private pools as `pools_`
};

}  // namespace ashlar::classic
