// SPDX-License-Identifier: Apache-2.0
//
// Infers the pools of trace entries that have none. PyTorch records pools in entries only since
// 2026; older files have the pools of the final segments.
#pragma once

#include "ashlar/snapshot.h"

namespace ashlar {

// Sets the pools of a device's entries that have none:
//  - Entries within a segment that exists at the end belong to the pool of that segment.
//  - Segments that were freed while the default pool kept free segments were not freed by emptying
//    the cache, which would have freed those as well. If no allocation followed, they were not
//    freed for lack of memory either. Then a pool was released; it gets an id of its own.
//  - All other entries belong to the default pool. A pool whose segments were freed together with
//    the rest of the cache cannot be recognized. If a pool freed only some of its segments, these
//    count as a separate pool.
void infer_pools(Snapshot& snapshot, DeviceIndex device);

}  // namespace ashlar
