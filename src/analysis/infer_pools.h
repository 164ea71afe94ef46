// SPDX-License-Identifier: Apache-2.0
//
// Infers the pools of trace entries that have no pool. PyTorch records pools in entries only since
// 2026; older files contain only the pools of the final segments.
#pragma once

#include "ashlar/snapshot.h"

namespace ashlar {

// Sets the pools of the entries of a device that have no pool:
//  - Entries within a segment that exists at the end belong to the pool of that segment.
//  - Segments that were freed while the default pool kept free segments were not freed by emptying
//    the cache, which frees all free segments of the default pool. Unless the next entry allocates,
//    maps or unmaps a segment or is an oom entry, they were not freed for lack of memory either. In
//    that case a pool was released, and these segments get the id of a new pool.
//  - All other entries belong to the default pool. A pool whose segments were freed together with
//    the rest of the cache cannot be recognized. If a pool freed only some of its segments, they
//    count as a separate pool.
void infer_pools(Snapshot& snapshot, DeviceIndex device);

}  // namespace ashlar
