// SPDX-License-Identifier: Apache-2.0
//
// Multicast in the stand-in for libcuda.so.1. A driver from before CUDA 12.1 is one without this
// file.
#include "device/cuda/cuda_driver.h"
#include "standin/here.h"

namespace ashlar::standin {

ASHLAR_STANDIN int cuMulticastGetGranularity(size_t* bytes, const cuda::MulticastObjectProp*, int) {
  if (const Code told = Core::get().told("cuMulticastGetGranularity"); told != kDone) return told;
  *bytes = Core::get().multicast_granularity_bytes();
  return kDone;
}

ASHLAR_STANDIN int cuMulticastCreate(abi::Extent* object, const cuda::MulticastObjectProp* wanted) {
  if (const Code told = Core::get().told("cuMulticastCreate"); told != kDone) return told;
  return Core::get().create_multicast({.device_count = wanted->num_devices,
                                       .bytes = wanted->size,
                                       .fd = (wanted->handle_types & abi::kHandlePosixFd) != 0,
                                       .fabric = (wanted->handle_types & abi::kHandleFabric) != 0},
                                      number(*object));
}

ASHLAR_STANDIN int cuMulticastAddDevice(abi::Extent object, int device) {
  if (const Code told = Core::get().told("cuMulticastAddDevice"); told != kDone) return told;
  if (!is_device(device)) return kInvalidDevice;
  return Core::get().add_to_multicast(object, static_cast<size_t>(device));
}

ASHLAR_STANDIN int cuMulticastBindMem(abi::Extent object, size_t offset, abi::Extent extent,
                                      size_t extent_offset, size_t bytes, unsigned long long) {
  if (const Code told = Core::get().told("cuMulticastBindMem"); told != kDone) return told;
  if (offset != 0 || extent_offset != 0) return kNotSupported;
  return Core::get().bind_multicast(object, extent, bytes);
}

ASHLAR_STANDIN int cuMulticastUnbind(abi::Extent object, int device, size_t offset, size_t bytes) {
  if (const Code told = Core::get().told("cuMulticastUnbind"); told != kDone) return told;
  if (offset != 0 || !is_device(device)) return kInvalidValue;
  return Core::get().unbind_multicast(object, static_cast<size_t>(device), bytes);
}

}  // namespace ashlar::standin
