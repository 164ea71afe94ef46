// SPDX-License-Identifier: Apache-2.0
//
// What an out-of-memory observer is told.
#pragma once

#include <cstddef>

#include "ashlar/types.h"

namespace ashlar {

struct OomNotice {
  DeviceIndex device;
  size_t wanted_bytes = 0;  // the segment that could not be had
  size_t limit_bytes = 0;   // our own limit, or the device's capacity
  size_t device_free_bytes = 0;
};

}  // namespace ashlar
