// SPDX-License-Identifier: Apache-2.0
//
// The state of a pool at one moment, to be restored later: for graphs that share a pool, where one
// must be captured as if another had just been launched. A value; it holds nothing of the pool.
#pragma once

#include <cstddef>
#include <vector>

#include "ashlar/types.h"

namespace ashlar {

struct BlockRecord {
  enum class State { kAllocated, kFree, kUnmapped };
  AddressRange range{};
  size_t requested_bytes = 0;
  State state = State::kFree;
};

// The blocks of a segment, in address order; they tile it.
struct SegmentRecord {
  bool is_small = false;
  std::vector<BlockRecord> blocks{};
  StreamId stream{};  // whose blocks they were
};

struct PoolCheckpoint {
  PoolId pool{};
  std::vector<SegmentRecord> segments{};
};

}  // namespace ashlar
