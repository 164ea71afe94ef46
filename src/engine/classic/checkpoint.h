// SPDX-License-Identifier: Apache-2.0
//
// Records the state of a private pool's blocks in a checkpoint, and restores it. Called with the
// engine's lock held.
#pragma once

#include "ashlar/checkpoint.h"
#include "engine/classic/block_heap.h"
#include "engine/classic/pool_table.h"

namespace ashlar::classic {

// Records the blocks of the pool. kInvalidArgument: a block cannot be recorded (check_recordable).
Result<PoolCheckpoint> take_checkpoint(const PrivatePool& pool, BlockHeap& heap);

// Frees all blocks of the pool, then allocates those that were allocated at the checkpoint.
// REQUIRES: `checkpoint` was taken of this pool. kInvalidArgument: a block cannot be restored
// (check_restorable), or recorded memory was released since the checkpoint; the pool is then
// unchanged.
Result<RestoreResult> restore_checkpoint(const PoolCheckpoint& checkpoint, const PrivatePool& pool,
                                         BlockHeap& heap);

}  // namespace ashlar::classic
