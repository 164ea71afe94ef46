// SPDX-License-Identifier: Apache-2.0
//
// What driver calls cost on a real card: one H200 under driver 580, medians. The figures and how
// they were taken are in docs/design/cost_model.md. Pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ashlar/device_call.h"

namespace ashlar::sim {

// What a call was about, as far as its cost depends on it.
struct CallSize {
  size_t bytes = 0;
  size_t extents = 1;  // how many mapped extents the range covers
};

// Host time spent in the call. 0 for calls that no figure is known for.
int64_t modelled_call_ns(DeviceCall call, const CallSize& size);

// Device time of moving bytes, for the clock of seeded machines.
enum class Path { kHostLink, kDeviceMemory };
int64_t modelled_move_ns(Path path, size_t bytes);

}  // namespace ashlar::sim
