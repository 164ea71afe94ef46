// SPDX-License-Identifier: Apache-2.0
//
// The stand-in for libnvidia-ml.so.1, in the same library as the driver. Lists this process twice,
// as NVML does for MIG instances.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "device/cuda/nvml.h"
#include "standin/core.h"
#include "standin/exported.h"

namespace ashlar::standin {
namespace {

constexpr int kNvmlNotFound = 6;
constexpr int kNvmlTooSmall = 7;

std::string uuid_of(size_t device) {
  std::string digits;
  for (const uint8_t byte : Core::get().device(device).properties().uuid) {
    char two[3] = {};
    std::snprintf(two, sizeof two, "%02x", byte);
    digits += two;
  }
  for (const size_t place : {20U, 16U, 12U, 8U}) digits.insert(place, 1, '-');
  return "GPU-" + digits;
}

}  // namespace

ASHLAR_STANDIN int nvmlInit_v2() { return kDone; }

ASHLAR_STANDIN int nvmlDeviceGetHandleByUUID(const char* uuid, cuda::Nvml::DeviceHandle* device) {
  for (size_t i = 0; i < Core::get().device_count(); ++i) {
    if (uuid_of(i) != uuid) continue;
    *device = reinterpret_cast<cuda::Nvml::DeviceHandle>(i + 1);
    return kDone;
  }
  return kNvmlNotFound;
}

ASHLAR_STANDIN int nvmlDeviceGetComputeRunningProcesses_v3(cuda::Nvml::DeviceHandle device,
                                                           unsigned* count,
                                                           cuda::Nvml::ProcessRecord* records) {
  if (*count < 2) {
    *count = 2;
    return kNvmlTooSmall;
  }
  const size_t index = reinterpret_cast<uintptr_t>(device) - 1;
  const Result<DeviceMemoryStats> use = Core::get().device(index).memory_stats();
  if (!use.ok()) return code_of(use);
  *count = 2;
  records[0] = {static_cast<unsigned>(getpid()), use->total_bytes - use->free_bytes, 0, 0};
  records[1] = {static_cast<unsigned>(getpid()), ~0ULL, 0, 0};
  return kDone;
}

}  // namespace ashlar::standin
