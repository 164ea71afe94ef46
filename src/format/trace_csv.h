// SPDX-License-Identifier: Apache-2.0
//
// Traces as a table for spreadsheets and scripts: one row per entry (docs/formats/exports.md).
#pragma once

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/byte_stream.h"

namespace ashlar {

// Failures are the sink's.
Status write_trace_csv(const Snapshot& snapshot, ByteSink& sink);

}  // namespace ashlar
