// The state of a private pool at one moment, to be restored later: for graphs that share a pool,
// where one must be captured as if another had just been launched.
#pragma once

#include <memory>
#include <vector>

#include "ashlar/types.h"
#include "engine/block.h"

namespace ashlar::classic {

struct BlockRecord {
  AddressRange range;
  size_t requested_bytes = 0;
  BlockState state = BlockState::kFree;
};

// The blocks of a segment, in address order; they tile it.
struct SegmentRecord {
  bool is_small = false;
  std::vector<BlockRecord> blocks;
};

struct PoolCheckpoint {
  PoolId pool;
  std::vector<SegmentRecord> segments;
};

// What restoring changed. An address may be in both: whoever had it before has it no more.
struct CheckpointChange {
  std::vector<DeviceAddress> freed;  // were allocated, and are not the caller's any more
  std::vector<Block*> allocated;     // are allocated now; the caller's to free
};

}  // namespace ashlar::classic
