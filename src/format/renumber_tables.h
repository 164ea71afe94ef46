// SPDX-License-Identifier: Apache-2.0
//
// Normalizes the tables of a snapshot: elements are renumbered in the order of first use, and
// unused elements are removed. Snapshots with equal contents then compare equal, regardless of the
// order in which their files list frames, stacks and strings.
#pragma once

#include "ashlar/snapshot.h"

namespace ashlar {

// REQUIRES: all table positions in the snapshot are valid.
void renumber_tables(Snapshot& snapshot);

}  // namespace ashlar
