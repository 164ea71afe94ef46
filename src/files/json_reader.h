// SPDX-License-Identifier: Apache-2.0
//
// Snapshots from JSON: the same keys as in a pickle, tuples as lists (docs/formats/snapshot.md).
#pragma once

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/byte_stream.h"
#include "format/value_store.h"

namespace ashlar {

// Holds no more of the text than one string at a time.
// kFormat: the message says where, what was found and what was expected. Other kinds come from the
// source.
Result<Snapshot> read_snapshot_json(ByteSource& source, const ReadLimits& limits = {});

}  // namespace ashlar
