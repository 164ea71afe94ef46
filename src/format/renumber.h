// SPDX-License-Identifier: Apache-2.0
//
// Positions in the tables of a snapshot, given anew in the order of first use. What nobody uses is
// gone afterwards. Two snapshots that say the same then compare equal, whatever order their files
// were written in.
#pragma once

#include "ashlar/snapshot.h"

namespace ashlar {

// REQUIRES: the positions are in the tables.
void renumber_tables(Snapshot& snapshot);

}  // namespace ashlar
