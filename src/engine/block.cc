// SPDX-License-Identifier: Apache-2.0
//
// Checks whether checkpoints can contain and restore a block, and formats errors about its state.
#include "engine/block.h"

#include "base/text.h"

namespace ashlar {
namespace {

Status block_error(const Block& block, PoolId pool, const char* why) {
  return Status::invalid_argument(
      text("the block at ", block.address, " of pool ", pool, " ", why));
}

}  // namespace

Status double_free_error(const Block& block) {
  return Status::invalid_argument(text("the block at ", block.address, " was freed already"));
}

Status foreign_block_error(const Block& block) {
  return Status::invalid_argument(
      text("the block at ", block.address, " belongs to another allocator: pass that allocator"));
}

Status check_recordable(const Block& block, PoolId pool) {
  if (block.state == BlockState::kPending) {
    return block_error(block, pool, "was freed but is still in use: synchronize its streams");
  }
  if (block.is_uncached) {
    return block_error(block, pool, "was allocated while caching was off: free it first");
  }
  return {};
}

Status check_restorable(const Block& block, PoolId pool) {
  if (block.pin_count > 0) {
    return block_error(block, pool, "is shared with other processes: stop sharing it first");
  }
  if (Status recordable = check_recordable(block, pool); !recordable.ok()) return recordable;
  if (!block.uses.empty()) {
    return block_error(block, pool, "is used by other streams: free it before a restore");
  }
  return {};
}

}  // namespace ashlar
