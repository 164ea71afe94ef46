// SPDX-License-Identifier: Apache-2.0
//
// From the name of a library to devices.
#include "ashlar/devices.h"
#include "base/text.h"
#include "device/gpu/gpu_devices.h"
#include "device/hip/hip_driver.h"

namespace ashlar {
namespace {

// The plain name comes with the development package only; a driver alone has a version.
constexpr const char* kLibraryNames[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"};

}  // namespace

Result<std::unique_ptr<DeviceSet>> try_open_hip(const DriverOptions& options) {
  const char* const named[] = {options.library.c_str()};
  Result<DriverLibrary> library =
      options.library.empty() ? DriverLibrary::open(kLibraryNames) : DriverLibrary::open(named);
  if (!library.ok()) {
    return Status::unsupported(text("no HIP driver: ", library.status().message()));
  }
  const Result<hip::Api> api = hip::find_api(*library);
  if (!api.ok()) return api.status();
  return gpu::open_devices(std::make_unique<hip::HipDriver>(*std::move(library), *api));
}

}  // namespace ashlar
