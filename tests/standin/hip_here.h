// For the functions of the HIP stand-in: the device that the calling thread has set, the runtime's
// memory of the thread's last failure, and its types as the numbers that the core (core.h) keeps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/hip/hip_abi.h"
#include "standin/core.h"
#include "standin/exported.h"

namespace ashlar::standin {

size_t device_set();
// Remembers a failure, as the runtime does for hipGetLastError.
int noted(int code);

template <typename Call>
int here(const Call& call) {
  return noted(call(device_set()));
}

inline DeviceAddress address(const void* at) {
  return DeviceAddress(reinterpret_cast<uintptr_t>(at));
}

inline void* pointer(uint64_t at) { return reinterpret_cast<void*>(static_cast<uintptr_t>(at)); }

template <typename Tag>
uint64_t number(Tag* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

template <typename Handle>
Handle handle_for(uint64_t value) {
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(value));
}

}  // namespace ashlar::standin
