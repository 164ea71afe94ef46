// Device addresses, which HIP takes as pointers.
#pragma once

#include <cstdint>

#include "ashlar/types.h"

namespace ashlar::hip {

inline void* pointer(DeviceAddress at) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(at.value()));
}

}  // namespace ashlar::hip
