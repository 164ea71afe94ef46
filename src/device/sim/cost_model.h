// SPDX-License-Identifier: Apache-2.0
//
// Modelled cost of driver calls, from medians measured on one H200 with driver 580. See
// docs/internals/cost_model.md for the figures and how they were measured.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ashlar/device_call.h"

namespace ashlar::sim {

// The quantities that determine the cost of a call.
struct CallSize {
  size_t bytes = 0;
  size_t extents = 1;  // number of mapped extents in the range
};

// Returns the modelled host time of the call on hardware; 0 for calls that were not measured.
int64_t modelled_call_ns(DeviceCall call, const CallSize& size);

// The memory that a copy or fill accesses: host memory over the link, or device memory only.
enum class TransferPath { kHostLink, kDeviceMemory };
// Returns the device time of a copy or fill, for the clock of seeded machines. The times are based
// on round numbers, not on measurements.
int64_t modelled_transfer_ns(TransferPath path, size_t bytes);

}  // namespace ashlar::sim
