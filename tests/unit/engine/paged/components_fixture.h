// SPDX-License-Identifier: Apache-2.0
//
// A fixture with the components of a paged engine on a simulated device, without the engine.
#pragma once

#include <memory>
#include <vector>

#include "engine/paged/pending_blocks.h"
#include "engine/paged/pool_table.h"
#include "engine/paged/view_table.h"
#include "unit/engine/sim_fixture.h"

namespace ashlar::paged {

// The components, in the order in which PagedEngine constructs them.
struct EngineComponents {
  explicit EngineComponents(Device& device, const AllocatorOptions& options = {})
      : config(device, options, nullptr),
        tracer(history, config.index),
        streams(device, false, error),
        pools(config.granule_bytes == 0, peaks, streams, addresses),
        backups(device, mutex, error),
        extents(config, peaks, tracer, backups, error),
        mover(options.policy, tracer),
        views(config, mutex, mover, tracer, error),
        segments(config, mutex, extents, streams, tracer, error),
        pending(streams, segments, peaks, tracer) {}

  BlockTable addresses;
  History history;
  const PagedConfig config;
  RequestTracer tracer;
  EngineMutex mutex;
  PeakTracker peaks;
  DeferredError error;
  StreamMonitor streams;
  PoolTable pools;
  HostBackups backups;
  ExtentStore extents;
  ExtentMover mover;
  ViewTable views;
  SegmentStore segments;
  PendingBlocks pending;
};

class ComponentsFixture : public SimFixture {
 protected:
  void SetUp() override {
    make_machine();
    components_ = std::make_unique<EngineComponents>(device());
    EngineLock lock(components_->mutex);
    components_->pools.add_default_pool();
  }

  // Returns a request on the default pool.
  SlowPathRequest request(size_t bytes, StreamId stream = kDefaultStream)
      ASHLAR_REQUIRES(engine_lock) {
    SlowPathRequest slow;
    slow.request = {bytes, stream, {}};
    slow.block_bytes = bytes;
    slow.is_small = SizePolicy::is_small(bytes);
    slow.pool = &components_->pools.default_pool();
    slow.arena = &components_->pools.arena_of(*slow.pool, stream);
    return slow;
  }
  std::vector<Extent*> create(const std::vector<size_t>& sizes) ASHLAR_REQUIRES(engine_lock) {
    std::vector<Extent*> extents;
    const Status created = components_->extents.create(request(4 * kMiB), sizes, extents);
    EXPECT_TRUE(created.ok()) << created.to_string();
    components_->extents.count_created(extents);
    return extents;
  }
  // Creates a view of these extents with one free block.
  View& create_view(const std::vector<Extent*>& extents) ASHLAR_REQUIRES(engine_lock) {
    SlowPathRequest slow = request(4 * kMiB);
    View& view = **components_->views.create(slow, 64 * kMiB);
    const BlockReservation blocks(*slow.arena);
    const Result<PagedBlock*> block = components_->views.map_at_end(view, extents, slow);
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    BiasedLock lock(view.arena->lock);
    if (block.ok()) view.arena->add_free(*block);
    return view;
  }
  // Detaches the extents, unmaps them, and releases them and the view.
  void release(View& view) ASHLAR_REQUIRES(engine_lock) {
    PagedPool& pool = view.arena->pool;
    std::vector<Extent*> extents;
    {
      ArenaLocks locks(pool);
      pool.fill_reserves();
      components_->mover.move_view(view, *view.arena);
      for (const Slot& slot : view.slots) extents.push_back(slot.extent);
    }
    const auto notices = components_->views.announce_release(extents);
    for (Extent* extent : extents) {
      EXPECT_TRUE(components_->views.unmap_all(*extent));
      EXPECT_TRUE(components_->extents.release(pool, extent));
    }
    EXPECT_TRUE(components_->views.release(view));
  }

  std::unique_ptr<EngineComponents> components_;
};

}  // namespace ashlar::paged
