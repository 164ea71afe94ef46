// SPDX-License-Identifier: Apache-2.0
//
// Read-only views of a classic engine's blocks: snapshots, live addresses, and a check of the
// invariants. Called with the engine's lock held.
#pragma once

#include <optional>
#include <vector>

#include "ashlar/snapshot.h"
#include "engine/classic/block_heap.h"
#include "engine/classic/pool_table.h"

namespace ashlar::classic {

// The segments of one pool, or of all, in address order. The mapped parts of an expandable segment
// appear as separate segments.
std::vector<SnapshotSegment> snapshot_segments(const BlockHeap& heap, DeviceIndex device,
                                               std::optional<PoolId> pool);
// The addresses of a pool's allocated blocks, in order. Null: the default pool.
std::vector<DeviceAddress> live_addresses(const BlockHeap& heap, const PrivatePool* pool);
// The plain segment that contains the block.
AddressRange segment_range(const ClassicBlock& block);

// Checks the invariants of BlockHeap and that the counters equal sums over the blocks. Returns the
// first violation.
Status validate_heap(const BlockHeap& heap, const PoolTable& pools, const StatsRecorder& stats);

}  // namespace ashlar::classic
