// SPDX-License-Identifier: Apache-2.0
//
// A driver's handles as the numbers that the shared logic keeps, and back.
#pragma once

#include <cstdint>

#include "device/gpu/driver.h"
#include "device/gpu/driver_abi.h"

namespace ashlar::gpu {

template <typename Native>
Native native(Handle handle) {
  return reinterpret_cast<Native>(static_cast<uintptr_t>(handle));
}

inline abi::Stream native(StreamId stream) { return native<abi::Stream>(stream.value()); }

template <typename Tag>
Handle number_of(Tag* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

}  // namespace ashlar::gpu
