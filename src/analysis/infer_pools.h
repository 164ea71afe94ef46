// SPDX-License-Identifier: Apache-2.0
//
// Which pools the entries of a trace belong to, where the file does not tell: PyTorch names them
// since 2026 only. What a file does tell is the pool of every segment at its end.
#pragma once

#include "ashlar/snapshot.h"

namespace ashlar {

// Fills in the pools of a device's entries that have none, as far as they follow:
//  - A segment that is there at the end says whose it is, and so do all entries within it.
//  - Segments that were given back while the default pool kept whole free ones were not given back
//    by emptying the cache, which would have taken those, too, nor for want of memory, if nothing
//    was asked for next: a pool was let go. It gets a name of its own.
//  - Everything else counts as the default pool's. A pool whose segments went with the rest of the
//    cache is not to be told from it; of one that gave back a part of its segments only, that part
//    counts as a pool.
void infer_pools(Snapshot& snapshot, DeviceIndex device);

}  // namespace ashlar
