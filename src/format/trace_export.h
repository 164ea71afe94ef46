// SPDX-License-Identifier: Apache-2.0
//
// Exports of traces for other tools (docs/reference/formats/exports.md). perfetto.cc and
// trace_csv.cc implement them. Errors are those of the sink.
#pragma once

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/byte_stream.h"

namespace ashlar {

// Writes trace-event JSON for ui.perfetto.dev and chrome://tracing: memory counters over time,
// annotations as slices, out-of-memory errors as instants.
Status write_perfetto(const Snapshot& snapshot, ByteSink& sink);

// Writes CSV for spreadsheets and scripts: one row per trace entry.
Status write_trace_csv(const Snapshot& snapshot, ByteSink& sink);

}  // namespace ashlar
