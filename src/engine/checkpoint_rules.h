// SPDX-License-Identifier: Apache-2.0
//
// Which blocks stand in the way of a checkpoint or of a restore, the same for every engine that has
// checkpoints. Called with the engine's lock held.
#pragma once

#include "ashlar/status.h"
#include "ashlar/types.h"
#include "engine/block.h"

namespace ashlar {

// kInvalidArgument: the block belongs to its caller in a way that a list of ranges cannot say.
Status check_recordable(const Block& block, PoolId pool);
// kInvalidArgument: it is not the caller's alone, from whom a restore takes it away.
Status check_restorable(const Block& block, PoolId pool);

}  // namespace ashlar
