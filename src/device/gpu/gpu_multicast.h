// SPDX-License-Identifier: Apache-2.0
//
// Multicast objects of one device: memory of several devices behind one address. Calls the driver
// in the context of the device and does nothing else; `symm` decides the order of the calls, so
// that no rank blocks in the driver forever. Objects are the driver's handles. Thread safe.
#pragma once

#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {

class GpuMulticast {
 public:
  // `device` outlives this object.
  explicit GpuMulticast(GpuDevice& device) : device_(device) {}

  // kUnsupported: the device has no multicast; the message has the reason. All other functions
  // REQUIRE that this is ok.
  Status availability() const;
  // The granularity of object sizes and of memory bound to them.
  Result<size_t> granularity();
  Result<Handle> create(const Driver::MulticastRequest& wanted);
  Result<UniqueFd> export_fd(Handle object);
  Result<FabricHandle> export_fabric(Handle object);
  Result<Handle> import_fd(int fd);
  Result<Handle> import_fabric(const FabricHandle& handle);
  Status add_device(Handle object);
  // Binds a whole extent of the device. Blocks in the driver until all devices were added, and so
  // does `map`.
  Status bind(Handle object, ExtentId extent);
  Status unbind(Handle object, size_t bytes);
  // Maps the object at new addresses, for kernels only: copies and fills reject them.
  Result<AddressRange> map(Handle object, size_t bytes);
  Status unmap(AddressRange range);
  Status release(Handle object);

 private:
  GpuDevice& device_;
};

}  // namespace ashlar::gpu
