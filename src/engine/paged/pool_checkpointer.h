// SPDX-License-Identifier: Apache-2.0
//
// Takes and restores checkpoints of private pools. While a pool with a checkpoint is retained, none
// of its mappings is removed, so every block of the checkpoint can be allocated at its address
// again. Stateless. All functions need the engine's lock.
#pragma once

#include <vector>

#include "ashlar/checkpoint.h"
#include "engine/engine.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/pool_table.h"
#include "engine/paged/request_tracer.h"
#include "engine/paged/stitcher.h"

namespace ashlar::paged {

class PoolCheckpointer {
 public:
  PoolCheckpointer(PoolTable& pools, Stitcher& stitcher, RequestTracer& tracer,
                   DeferredError& error)
      : pools_(pools), stitcher_(stitcher), tracer_(tracer), error_(error) {}

  // Records the blocks of the pool. kInvalidArgument: a block cannot be recorded
  // (check_recordable).
  static Result<PoolCheckpoint> take(PagedPool& pool) ASHLAR_REQUIRES(engine_lock);
  // Frees all blocks of the pool, then allocates those that were allocated at the checkpoint. All
  // checks come first, so that a failure leaves the blocks unchanged.
  Result<RestoreResult> restore(PagedPool& pool, const PoolCheckpoint& checkpoint)
      ASHLAR_REQUIRES(engine_lock);

 private:
  Status free_all(PagedPool& pool, std::vector<DeviceAddress>& freed) ASHLAR_REQUIRES(engine_lock);

  PoolTable& pools_;
  Stitcher& stitcher_;
  RequestTracer& tracer_;
  DeferredError& error_;
};

}  // namespace ashlar::paged
