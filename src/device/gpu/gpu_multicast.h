// SPDX-License-Identifier: Apache-2.0
//
// Multicast objects of one device: memory of several devices behind one address. This class only
// makes driver calls in the context of the device; the caller (src/symm) chooses their order such
// that no rank blocks in the driver forever. Objects are the driver's handles. Thread safe.
#pragma once

#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {

class GpuMulticast {
 public:
  // REQUIRES: `device` outlives this object.
  explicit GpuMulticast(GpuDevice& device) : device_(device) {}

  // Returns kUnsupported if the device has no multicast; the message has the reason. All other
  // functions require that availability() is ok.
  Status availability() const;
  // Returns the granularity of object sizes and of bound memory.
  Result<size_t> granularity();
  Result<Handle> create(const Driver::MulticastRequest& request);
  Result<UniqueFd> export_fd(Handle object);
  Result<FabricHandle> export_fabric(Handle object);
  Result<Handle> import_fd(int fd);
  Result<Handle> import_fabric(const FabricHandle& handle);
  Status add_device(Handle object);
  // Binds a whole extent of the device to the object, at offset 0. Like `map`, the call blocks in
  // the driver until all devices have been added.
  Status bind(Handle object, ExtentId extent);
  Status unbind(Handle object, size_t bytes);
  // Maps the object at newly reserved addresses. Only kernels can use these addresses: the copies
  // and fills of `Device` reject them.
  Result<AddressRange> map(Handle object, size_t bytes);
  Status unmap(AddressRange range);
  Status release(Handle object);

 private:
  GpuDevice& device_;
};

}  // namespace ashlar::gpu
