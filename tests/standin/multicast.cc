// SPDX-License-Identifier: Apache-2.0
//
// Multicast functions of the stand-in for libcuda.so.1. Without this file, the library stands in
// for a driver before CUDA 12.1.
#include "device/cuda/cuda_driver.h"
#include "standin/current_device.h"

namespace ashlar::standin {

ASHLAR_STANDIN int cuMulticastGetGranularity(size_t* bytes, const cuda::MulticastObjectProp*, int) {
  if (const Code result = Core::get().result_of("cuMulticastGetGranularity"); result != kDone)
    return result;
  *bytes = Core::get().multicast_granularity_bytes();
  return kDone;
}

ASHLAR_STANDIN int cuMulticastCreate(abi::MemHandle* object,
                                     const cuda::MulticastObjectProp* wanted) {
  if (const Code result = Core::get().result_of("cuMulticastCreate"); result != kDone)
    return result;
  return Core::get().create_multicast({.device_count = wanted->num_devices,
                                       .bytes = wanted->size,
                                       .fd = (wanted->handle_types & abi::kHandlePosixFd) != 0,
                                       .fabric = (wanted->handle_types & abi::kHandleFabric) != 0},
                                      number(*object));
}

ASHLAR_STANDIN int cuMulticastAddDevice(abi::MemHandle object, int device) {
  if (const Code result = Core::get().result_of("cuMulticastAddDevice"); result != kDone)
    return result;
  if (!is_device(device)) return kInvalidDevice;
  return Core::get().add_to_multicast(object, static_cast<size_t>(device));
}

ASHLAR_STANDIN int cuMulticastBindMem(abi::MemHandle object, size_t offset, abi::MemHandle extent,
                                      size_t extent_offset, size_t bytes, unsigned long long) {
  if (const Code result = Core::get().result_of("cuMulticastBindMem"); result != kDone)
    return result;
  if (offset != 0 || extent_offset != 0) return kNotSupported;
  return Core::get().bind_multicast(object, extent, bytes);
}

ASHLAR_STANDIN int cuMulticastUnbind(abi::MemHandle object, int device, size_t offset,
                                     size_t bytes) {
  if (const Code result = Core::get().result_of("cuMulticastUnbind"); result != kDone)
    return result;
  if (offset != 0 || !is_device(device)) return kInvalidValue;
  return Core::get().unbind_multicast(object, static_cast<size_t>(device), bytes);
}

}  // namespace ashlar::standin
