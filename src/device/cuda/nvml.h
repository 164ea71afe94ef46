// SPDX-License-Identifier: Apache-2.0
//
// NVML, NVIDIA's monitoring library. Lists the processes that use a device, which the driver API
// cannot do.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/device.h"
#include "device/gpu/driver_function.h"

namespace ashlar::cuda {

class Nvml {
 public:
  using DeviceHandle = struct NvmlDeviceTag*;
  // The layout of nvmlProcessInfo_v2_t.
  struct ProcessRecord {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
  };

  // Loads the library at the path `library` or, if it is empty, the installed library.
  // kUnsupported: the library is not installed, lacks a function, or cannot be initialized; the
  // message gives the reason.
  static Result<Nvml> open(const std::string& library);

  // Returns one entry per process. kUnsupported: NVML lists no process, as in containers with their
  // own PID namespace, or does not find the device.
  Result<std::vector<ProcessMemoryUsage>> processes(const std::array<uint8_t, 16>& uuid) const;

 private:
  explicit Nvml(DriverLibrary library) : library_(std::move(library)) {}
  Status fault(const gpu::DriverResult& result) const;

  DriverLibrary library_;
  gpu::DriverFunction<int()> init_;
  gpu::DriverFunction<int(const char*, DeviceHandle*)> device_by_uuid_;
  gpu::DriverFunction<int(DeviceHandle, unsigned*, ProcessRecord*)> running_processes_;
};

}  // namespace ashlar::cuda
