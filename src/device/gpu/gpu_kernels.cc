// SPDX-License-Identifier: Apache-2.0
//
// Kernels of our own: loaded, found and launched. Users launch theirs by the vendor's means.
#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {

Result<Handle> GpuDevice::load_kernels(const void* image) {
  return call([&]() -> Result<Handle> {
    Handle kernels = 0;
    if (Status loaded = done(driver().load_kernels(image, kernels)); !loaded.ok()) return loaded;
    return kernels;
  });
}

Status GpuDevice::unload_kernels(Handle kernels) {
  return call([&] { return done(driver().unload_kernels(kernels)); });
}

Result<Handle> GpuDevice::find_kernel(Handle kernels, const char* name) {
  return call([&]() -> Result<Handle> {
    Handle kernel = 0;
    Status found = done(driver().find_kernel(kernels, name, kernel));
    if (!found.ok()) return found;
    return kernel;
  });
}

Status GpuDevice::launch(const Driver::Launch& launch, StreamId stream) {
  return call_on(stream, [&] { return done(driver().launch(launch, stream)); });
}

Status GpuDevice::check_access(AddressRange range, Access wanted) {
  return call([&] { return check_memory(range, wanted); });
}

}  // namespace ashlar::gpu
