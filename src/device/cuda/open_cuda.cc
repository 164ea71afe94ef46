// SPDX-License-Identifier: Apache-2.0
//
// From the name of a library to devices.
#include "ashlar/devices.h"
#include "base/text.h"
#include "device/cuda/cuda_driver.h"
#include "device/gpu/gpu_devices.h"

namespace ashlar {
namespace {

constexpr const char* kDriverName = "libcuda.so.1";

}  // namespace

Result<std::unique_ptr<DeviceSet>> try_open_cuda(const DriverOptions& options) {
  const char* const names[] = {options.library.empty() ? kDriverName : options.library.c_str()};
  Result<DriverLibrary> library = DriverLibrary::open(names);
  if (!library.ok()) {
    return Status::unsupported(text("no CUDA driver: ", library.status().message()));
  }
  const Result<cuda::Api> api = cuda::find_api(*library);
  if (!api.ok()) return api.status();
  return gpu::open_devices(std::make_unique<cuda::CudaDriver>(
      *std::move(library), *api, cuda::Nvml::open(options.monitor_library)));
}

}  // namespace ashlar
