// SPDX-License-Identifier: Apache-2.0
//
// The granularity of the simulated device on which a recording is replayed. Pure function.
#pragma once

#include <cstddef>

#include "analysis/allocations.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// Returns the granularity of the simulated device, in bytes. That of a real device, unless the
// recording requests implausibly much memory: large granules then bound the time and the host
// memory of a replay. REQUIRES: the snapshot has a trace of the device, to which the allocations
// belong.
size_t granularity_bytes_for(const Snapshot& snapshot, const Allocations& allocations,
                             DeviceIndex device, size_t capacity_bytes);

}  // namespace ashlar
