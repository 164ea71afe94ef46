// SPDX-License-Identifier: Apache-2.0
//
// The state of a pool at one moment: a plain value that holds no memory. Checkpoints let several
// graphs share a pool: restoring the state after one graph's capture lets the next graph be
// captured as if the first graph had just run.
//
// Errors: none.
#pragma once

#include <cstddef>
#include <vector>

#include "ashlar/types.h"

namespace ashlar {

// A block of a segment. kUnmapped: a part of an expandable segment's address range that has no
// memory.
struct BlockRecord {
  enum class State { kAllocated, kFree, kUnmapped };
  AddressRange range{};
  size_t requested_bytes = 0;
  State state = State::kFree;
};

// The blocks of one segment. In address order, they cover the segment without gaps.
struct SegmentRecord {
  bool is_small = false;
  std::vector<BlockRecord> blocks{};
  StreamId stream{};
};

struct PoolCheckpoint {
  PoolId pool{};
  std::vector<SegmentRecord> segments{};
};

}  // namespace ashlar
