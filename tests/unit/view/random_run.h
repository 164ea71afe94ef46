// SPDX-License-Identifier: Apache-2.0
//
// Recorded runs that nobody would record: random, with all that traces can lack. Small enough for a
// model that looks at everything.
#pragma once

#include <memory>

#include "ashlar/snapshot.h"
#include "view/document.h"

namespace ashlar::view {

struct RandomRun {
  uint64_t seed = 0;
  uint32_t entry_count = 0;
};

// Two streams, three stacks; allocations from before the trace, pending frees, addresses that are
// handed out again without a free, blocks that are live at the end and never seen, segments that
// come and go, some of them bit by bit.
Snapshot random_snapshot(const RandomRun& run);

Document document_of(Snapshot snapshot);

}  // namespace ashlar::view
