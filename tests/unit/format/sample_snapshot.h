// SPDX-License-Identifier: Apache-2.0
//
// A small snapshot with one of everything, its tables in the order of first use.
#pragma once

#include "ashlar/snapshot.h"

namespace ashlar {

Snapshot sample_snapshot();

}  // namespace ashlar
