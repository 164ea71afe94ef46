// SPDX-License-Identifier: Apache-2.0
//
// Pauses and resumes pools by tag. A paused pool has no physical memory but keeps its addresses:
// its views, slots and blocks stay; only the extents are dropped and created again. Each extent
// records whether it is dropped, and each slot whether it is mapped, so that after a failure
// partway the next pause or resume continues from there.
//
// While a pool `is_paused`, nothing is allocated from it; while it `is_changing`, nothing is
// released from it. Therefore waits, copies and observers can run without the lock. A backup is
// kept until the whole pool is resumed.
//
// All functions need the engine's lock except where stated otherwise.
#pragma once

#include <string_view>
#include <thread>
#include <vector>

#include "engine/paged/config.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/extent_store.h"
#include "engine/paged/host_backups.h"
#include "engine/paged/pending_blocks.h"
#include "engine/paged/pool_table.h"
#include "engine/paged/request_tracer.h"
#include "engine/paged/stream_monitor.h"
#include "engine/paged/trimmer.h"
#include "engine/paged/view_table.h"

namespace ashlar::paged {

enum class PoolTransition { kPause, kPauseAndKeep, kResume };

class PoolPauser {
 public:
  PoolPauser(const PagedConfig& config, EngineMutex& mutex, PoolTable& pools, ExtentStore& extents,
             ViewTable& views, HostBackups& backups, Trimmer& trimmer, PendingBlocks& pending,
             StreamMonitor& streams, RequestTracer& tracer)
      : config_(config),
        mutex_(mutex),
        pools_(pools),
        extents_(extents),
        views_(views),
        backups_(backups),
        trimmer_(trimmer),
        pending_(pending),
        streams_(streams),
        tracer_(tracer) {}

  // Pauses or resumes all pools with the tag. First waits for a transition in progress, and for
  // trims of these pools. `lock` is the held engine lock. kInvalidArgument: no pool has the tag, a
  // block is pinned, a stream is capturing, or the caller is a remap observer. kUnsupported: a pool
  // consists of plain segments, or a block was allocated without caching.
  Status change(std::string_view tag, PoolTransition transition, EngineLock& lock)
      ASHLAR_REQUIRES(engine_lock);

 private:
  using Pools = std::vector<PagedPool*>;

  Status pause(const Pools& pools, bool keeps_contents) ASHLAR_REQUIRES(engine_lock);
  static Status check_pausable(const PagedPool& pool);
  Status wait_for_users(const Pools& pools) ASHLAR_REQUIRES(engine_lock);
  std::vector<DeviceStream> find_using_streams(const Pools& pools) ASHLAR_REQUIRES(engine_lock);
  Status back_up(const Pools& pools) ASHLAR_REQUIRES(engine_lock);
  Status drop_extents(const Pools& pools) ASHLAR_REQUIRES(engine_lock);

  Status resume(const Pools& pools) ASHLAR_REQUIRES(engine_lock);
  Status restore(Extent& extent) ASHLAR_REQUIRES(engine_lock);
  void discard_backups(const PagedPool& pool) noexcept ASHLAR_REQUIRES(engine_lock);

  const PagedConfig& config_;
  EngineMutex& mutex_;
  PoolTable& pools_;
  ExtentStore& extents_;
  ViewTable& views_;
  HostBackups& backups_;
  Trimmer& trimmer_;
  PendingBlocks& pending_;
  StreamMonitor& streams_;
  RequestTracer& tracer_;
  // The thread that runs a transition; the default id if none does.
  std::thread::id active_thread_ ASHLAR_GUARDED_BY(engine_lock);
};

}  // namespace ashlar::paged
