// SPDX-License-Identifier: Apache-2.0
//
// Writes a snapshot in PyTorch's schema (docs/reference/formats/snapshot.md), with the keys in the
// order of PyTorch's own dumps. snapshot_pickle.h writes the same schema as a pickle.
#pragma once

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/byte_stream.h"
#include "format/value_writer.h"

namespace ashlar {

// Writes all values. The caller then calls writer.finish().
// REQUIRES: all table positions in the snapshot are valid.
void write_snapshot(const Snapshot& snapshot, ValueWriter& writer);

// Writes JSON with the same keys as a pickle and tuples as lists. PyTorch's viewer accepts this
// JSON; read_snapshot_json() in src/files/json_reader.h reads it back. Errors are those of the
// sink. REQUIRES: all table positions in the snapshot are valid.
Status write_snapshot_json(const Snapshot& snapshot, ByteSink& sink);

}  // namespace ashlar
