// SPDX-License-Identifier: Apache-2.0
//
// A snapshot in PyTorch's schema, key by key in the order of its own dumps, in whatever syntax.
#pragma once

#include "ashlar/snapshot.h"
#include "format/value_writer.h"

namespace ashlar {

// The writer then still wants finish().
// REQUIRES: the snapshot's positions are in its tables.
void write_snapshot(const Snapshot& snapshot, ValueWriter& writer);

}  // namespace ashlar
