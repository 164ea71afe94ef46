// The driver's handles as the numbers that the shared logic keeps, and back.
#pragma once

#include <cstdint>

#include "ashlar/types.h"
#include "device/cuda/cuda_abi.h"
#include "device/gpu/driver.h"

namespace ashlar::cuda {

template <typename Native>
Native native(gpu::Handle handle) {
  return reinterpret_cast<Native>(static_cast<uintptr_t>(handle));
}

inline Stream native(StreamId stream) { return native<Stream>(stream.value()); }

template <typename Native>
gpu::Handle number_of(Native* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

}  // namespace ashlar::cuda
