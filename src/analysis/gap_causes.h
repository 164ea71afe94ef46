// SPDX-License-Identifier: Apache-2.0
//
// Where the gap between what is reserved and what was asked for goes, at one moment. Every reserved
// byte is counted once: the causes add up to the gap exactly. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "ashlar/snapshot.h"

namespace ashlar {

// The allocation that made the allocator take more from the device, at that moment: free memory is
// judged by why it could not serve this.
struct Demand {
  StreamId stream{};
  bool is_large = false;
  PoolId pool{};
};

// What an entry of a trace asks for, or asked for in vain.
Demand demand_at(const TraceEntry& entry);
// Whether free memory there is of use to it, if only there is enough.
bool can_serve(const SnapshotSegment& segment, const Demand& demand);

struct Causes {
  size_t requested_bytes = 0;  // of blocks in use, pending ones included
  size_t rounding = 0;         // blocks in use that are larger than what was asked for
  // Free memory, by the first of these that holds:
  size_t other_pool = 0;    // it belongs to another pool
  size_t other_stream = 0;  // it belongs to another stream
  size_t other_size = 0;    // it is kept for small blocks, and a large one was wanted; or reverse
  size_t beside_live = 0;  // it lies beside live blocks: too small a hole, and cannot be given back
  size_t unused = 0;       // whole segments that nobody uses

  size_t gap_bytes() const {
    return rounding + other_pool + other_stream + other_size + beside_live + unused;
  }
  size_t reserved_bytes() const { return requested_bytes + gap_bytes(); }
};

Causes explain_gap(const std::vector<SnapshotSegment>& segments, const Demand& demand);

}  // namespace ashlar
