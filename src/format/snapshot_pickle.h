// SPDX-License-Identifier: Apache-2.0
//
// Snapshots as pickles, PyTorch's own format: what docs/formats/pickle.md describes.
#pragma once

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/byte_stream.h"
#include "format/value_store.h"

namespace ashlar {

// Reads protocols 2 to 5 and every version of the schema; executes nothing.
// kFormat: the message says where, what was found and what was expected. Other kinds come from the
// source.
Result<Snapshot> read_snapshot_pickle(ByteSource& source, const ReadLimits& limits = {});

// Protocol 4, for Python's pickle.load and PyTorch's viewer. Failures are the sink's.
Status write_snapshot_pickle(const Snapshot& snapshot, ByteSink& sink);

}  // namespace ashlar
