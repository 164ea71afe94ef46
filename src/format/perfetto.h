// SPDX-License-Identifier: Apache-2.0
//
// Traces for ui.perfetto.dev and chrome://tracing: trace-event JSON with counters of memory over
// time, annotations as slices, and OOMs as instants (docs/formats/exports.md).
#pragma once

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/byte_stream.h"

namespace ashlar {

// Failures are the sink's.
Status write_perfetto(const Snapshot& snapshot, ByteSink& sink);

}  // namespace ashlar
