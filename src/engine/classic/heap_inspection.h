// SPDX-License-Identifier: Apache-2.0
//
// Reads a classic engine's blocks: takes snapshots, lists live addresses, and checks invariants.
// Called with the engine's lock held.
#pragma once

#include <optional>
#include <vector>

#include "ashlar/snapshot.h"
#include "engine/classic/block_heap.h"
#include "engine/classic/pool_table.h"
#include "engine/engine.h"

namespace ashlar::classic {

// Adds the segments of one pool, or of all pools, to the snapshot. Each contiguous mapped part of
// an expandable segment appears as a separate segment.
void snapshot_segments(const BlockHeap& heap, DeviceIndex device, std::optional<PoolId> pool,
                       EngineSnapshot& snapshot);
// Returns the addresses of a pool's allocated blocks, in ascending order. A null `pool` means the
// default pool.
std::vector<DeviceAddress> live_addresses(const BlockHeap& heap, const PrivatePool* pool);
// Returns the range of the plain segment that contains the block.
AddressRange segment_range(const ClassicBlock& block);

// Checks the invariants of BlockHeap and that the counters equal sums over the blocks. Returns the
// first violation.
Status validate_heap(const BlockHeap& heap, const PoolTable& pools, const StatsRecorder& stats);

}  // namespace ashlar::classic
