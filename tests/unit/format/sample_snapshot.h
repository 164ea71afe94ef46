// SPDX-License-Identifier: Apache-2.0
//
// A small snapshot that uses every field, with normalized tables.
#pragma once

#include "ashlar/snapshot.h"

namespace ashlar {

Snapshot sample_snapshot();

}  // namespace ashlar
