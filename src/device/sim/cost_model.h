// SPDX-License-Identifier: Apache-2.0
//
// Modelled cost of driver calls: medians measured on one H200 with driver 580. See
// docs/internals/cost_model.md for the figures and how they were measured.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ashlar/device_call.h"

namespace ashlar::sim {

// The sizes that the cost of a call depends on.
struct CallSize {
  size_t bytes = 0;
  size_t extents = 1;  // number of mapped extents in the range
};

// Host time spent in the call. 0 for calls without a measurement.
int64_t modelled_call_ns(DeviceCall call, const CallSize& size);

// Device time of a copy or fill, for the clock of seeded machines.
enum class Path { kHostLink, kDeviceMemory };
int64_t modelled_move_ns(Path path, size_t bytes);

}  // namespace ashlar::sim
