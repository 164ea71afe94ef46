// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's monitor, where it is installed: which processes use a device's memory. The driver itself
// does not tell.
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
  // The second version of the monitor's own record of a process.
  struct ProcessRecord {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
  };

  // kUnsupported: it is not here, lacks a function, or does not start; the message says which.
  static Result<Nvml> open(const std::string& library);

  // One entry for each process. kUnsupported: the monitor sees none although this one is there, as
  // in containers with process numbers of their own.
  Result<std::vector<ProcessUse>> processes(const std::array<uint8_t, 16>& uuid) const;

 private:
  explicit Nvml(DriverLibrary library) : library_(std::move(library)) {}
  Status fault(const gpu::Outcome& outcome) const;

  DriverLibrary library_;
  gpu::DriverFunction<int()> init_;
  gpu::DriverFunction<int(const char*, DeviceHandle*)> device_by_uuid_;
  gpu::DriverFunction<int(DeviceHandle, unsigned*, ProcessRecord*)> running_processes_;
};

}  // namespace ashlar::cuda
