// SPDX-License-Identifier: Apache-2.0
//
// The rules, in the order in which they are told; see checkpoint_rules.h.
#include "engine/checkpoint_rules.h"

#include "base/text.h"

namespace ashlar {
namespace {

// What stands in the way, and what to do about it.
Status in_the_way(const Block& block, PoolId pool, const char* why) {
  return Status::invalid_argument(
      text("the block at ", block.address, " of pool ", pool, " ", why));
}

}  // namespace

Status check_recordable(const Block& block, PoolId pool) {
  if (block.state == BlockState::kPending) {
    return in_the_way(block, pool, "was freed but is still in use: synchronize its streams");
  }
  if (block.is_uncached) {
    return in_the_way(block, pool, "was allocated while caching was off: free it first");
  }
  return {};
}

Status check_restorable(const Block& block, PoolId pool) {
  if (block.pin_count > 0) {
    return in_the_way(block, pool, "is shared with other processes: end that before a restore");
  }
  if (Status recordable = check_recordable(block, pool); !recordable.ok()) return recordable;
  if (!block.uses.empty()) {
    return in_the_way(block, pool, "is used by other streams: free it before a restore");
  }
  return {};
}

}  // namespace ashlar
