// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes snapshots as pickles, PyTorch's own format (docs/reference/formats/pickle.md).
#pragma once

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/byte_stream.h"
#include "format/value_store.h"

namespace ashlar {

// Reads protocols 2 to 5 and every version of the schema, without executing code.
// kFormat: the message contains the byte offset, what was found and what was expected. Other errors
// are those of the source.
Result<Snapshot> read_snapshot_pickle(ByteSource& source, const ReadLimits& limits = {});

// Writes protocol 4, for Python's pickle.load and PyTorch's viewer. Errors are those of the sink.
Status write_snapshot_pickle(const Snapshot& snapshot, ByteSink& sink);

}  // namespace ashlar
