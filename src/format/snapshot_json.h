// SPDX-License-Identifier: Apache-2.0
//
// Snapshots as JSON: the same keys as in a pickle, tuples as lists, as PyTorch's viewer takes it
// too. Reading it back is for the tools: src/files/json_reader.h.
#pragma once

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/byte_stream.h"

namespace ashlar {

// Failures are the sink's.
Status write_snapshot_json(const Snapshot& snapshot, ByteSink& sink);

}  // namespace ashlar
