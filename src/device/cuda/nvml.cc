// SPDX-License-Identifier: Apache-2.0
//
// Loads NVML at run time, and queries the processes of a device by its UUID.
#include "device/cuda/nvml.h"

#include <algorithm>
#include <map>

namespace ashlar::cuda {
namespace {

constexpr const char* kLibraryName = "libnvidia-ml.so.1";
constexpr int kInsufficientSize = 7;                       // NVML_ERROR_INSUFFICIENT_SIZE
constexpr unsigned long long kNotAvailable = ~0ULL;        // NVML_VALUE_NOT_AVAILABLE
constexpr unsigned kMaxProcessCount = 1U << 16;            // limit on the record buffer
constexpr std::array<size_t, 4> kHyphens = {4, 6, 8, 10};  // a hyphen precedes these bytes

// Formats a UUID as NVML expects it: "GPU-8a3c1d2e-…".
std::string format_uuid(const std::array<uint8_t, 16>& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string formatted = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    for (const size_t hyphen : kHyphens) {
      if (i == hyphen) formatted += '-';
    }
    formatted += kDigits[uuid[i] >> 4];
    formatted += kDigits[uuid[i] & 0x0f];
  }
  return formatted;
}

}  // namespace

Result<Nvml> Nvml::open(const std::string& library) {
  const char* const names[] = {library.empty() ? kLibraryName : library.c_str()};
  Result<DriverLibrary> loaded = DriverLibrary::open(names);
  if (!loaded.ok()) return loaded.status();
  Nvml nvml(*std::move(loaded));
  gpu::FunctionLoader loader(nvml.library_);
  loader.require(nvml.init_, "nvmlInit_v2");
  loader.require(nvml.device_by_uuid_, "nvmlDeviceGetHandleByUUID");
  loader.require(nvml.running_processes_, {"nvmlDeviceGetComputeRunningProcesses_v3",
                                           "nvmlDeviceGetComputeRunningProcesses_v2"});
  if (Status complete = loader.status(); !complete.ok()) return complete;
  if (const gpu::DriverResult started = nvml.init_(); !started.ok()) {
    return Status::unsupported(nvml.fault(started).to_string());
  }
  return nvml;
}

Result<std::vector<ProcessMemoryUsage>> Nvml::processes(const std::array<uint8_t, 16>& uuid) const {
  DeviceHandle device = nullptr;
  const gpu::DriverResult found = device_by_uuid_(format_uuid(uuid).c_str(), &device);
  // The lookup fails for MIG partitions, for example, whose UUIDs are not those of a GPU.
  if (!found.ok()) return Status::unsupported(fault(found).to_string());
  std::vector<ProcessRecord> records(64);
  for (;;) {
    auto count = static_cast<unsigned>(records.size());
    const gpu::DriverResult listed = running_processes_(device, &count, records.data());
    if (listed.code == kInsufficientSize && records.size() < kMaxProcessCount) {
      records.resize(2 * records.size());
      continue;
    }
    if (!listed.ok()) return fault(listed);
    records.resize(std::min<size_t>(count, records.size()));
    break;
  }
  std::map<int64_t, size_t> used;
  for (const ProcessRecord& record : records) {
    if (record.pid == 0) continue;
    used[record.pid] += record.used_bytes == kNotAvailable ? 0 : record.used_bytes;
  }
  if (used.empty()) {
    return Status::unsupported("NVML lists no process, although this one uses the device");
  }
  std::vector<ProcessMemoryUsage> processes;
  for (const auto& [pid, bytes] : used) processes.push_back({pid, bytes});
  return processes;
}

Status Nvml::fault(const gpu::DriverResult& result) const {
  return Status::device_fault(result.call, result.code,
                              text(library_.name(), " returned error ", result.code));
}

}  // namespace ashlar::cuda
