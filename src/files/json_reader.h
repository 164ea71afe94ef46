// SPDX-License-Identifier: Apache-2.0
//
// Reads snapshots from JSON: the same keys as in a pickle, tuples as lists
// (docs/reference/formats/snapshot.md).
#pragma once

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/byte_stream.h"
#include "format/value_store.h"

namespace ashlar {

// Buffers the text in parts, at most one whole string at a time.
// kFormat: the message contains the byte offset, what was found and what was expected. Other errors
// are the source's.
Result<Snapshot> read_snapshot_json(ByteSource& source, const ReadLimits& limits = {});

}  // namespace ashlar
