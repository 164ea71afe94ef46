// SPDX-License-Identifier: Apache-2.0
//
// Creates random recordings with every kind of missing data, which are small enough for linear
// scans.
#pragma once

#include <memory>

#include "ashlar/snapshot.h"
#include "view/document.h"

namespace ashlar::view {

struct RandomRun {
  uint64_t seed = 0;
  uint32_t entry_count = 0;
};

// Returns a snapshot with two streams and three stacks. It has allocations that predate the trace,
// pending frees, displaced allocations, and final blocks without an entry. Segments are allocated
// and freed, some of them in parts.
Snapshot random_snapshot(const RandomRun& run);

Document document_of(Snapshot snapshot);

}  // namespace ashlar::view
