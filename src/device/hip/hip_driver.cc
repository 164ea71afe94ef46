// SPDX-License-Identifier: Apache-2.0
//
// Loads the HIP runtime, and implements the functions that differ from CUDA's: those for the
// current device, device properties, peers, imported descriptors and error messages.
#include "device/hip/hip_driver.h"

#include "ashlar/devices.h"
#include "base/text.h"

namespace ashlar::hip {

Result<HipApi> load_api(const DriverLibrary& library) {
  HipApi api;
  gpu::FunctionLoader loader(library, "hip");
  loader.require(api.get_error_name, "hipGetErrorName");
  loader.require(api.get_error_string, "hipGetErrorString");
  loader.require(api.get_last_error, "hipGetLastError");
  // The runtime keeps each thread's last error for hipGetLastError. Ashlar's failures must not
  // surface in other code, so hipGetLastError is called after each failure to clear the error.
  loader.call_after_failures(api.get_last_error);
  loader.require(api.runtime_get_version, "hipRuntimeGetVersion");
  loader.require(api.get_device, "hipGetDevice");
  loader.require(api.set_device, "hipSetDevice");
  loader.require(api.device_enable_peer_access, "hipDeviceEnablePeerAccess");
  loader.require(api.device_disable_peer_access, "hipDeviceDisablePeerAccess");
  loader.require(api.memcpy_peer_async, "hipMemcpyPeerAsync");
  load_api(loader, api.shared);
  // If the runtime has this virtual memory function, it must also have the other virtual memory
  // functions.
  if (library.find("hipMemImportFromShareableHandle") != nullptr) {
    load_virtual_memory(loader, api.shared);
  }
  if (Status complete = loader.status(); !complete.ok()) return complete;
  return api;
}

std::string HipDriver::error_text(int code) const {
  return format_error(code, hip_api_.get_error_name(code), hip_api_.get_error_string(code));
}

gpu::DriverResult HipDriver::device_count(int& count) {
  const gpu::DriverResult counted = CommonDriver::device_count(count);
  if (!counted.ok() || count == 0) return counted;
  return hip_api_.runtime_get_version(&runtime_version_);
}

gpu::DriverResult HipDriver::query_device(int device, gpu::DeviceInfo& info) {
  if (const gpu::DriverResult got = CommonDriver::query_device(device, info); !got.ok()) return got;
  info.has_stream_ordered_pool = has_attribute(device, kAttributeMemoryPools);
  // If the query fails, the device has no virtual memory.
  const bool has_functions = api().vmm.get_allocation_granularity.is_loaded();
  if (!has_functions || !granularity(device, info.granularity_bytes).ok()) {
    info.granularity_bytes = 0;
  }
  return {};
}

// HIP creates a device's context on first use and keeps it, so there is nothing to retain.
gpu::DriverResult HipDriver::retain_context(int) { return {}; }

void HipDriver::release_context(int) {}

gpu::DriverResult HipDriver::enter_context(int device, gpu::SavedContext& saved) {
  int current = -1;
  const gpu::DriverResult got = hip_api_.get_device(&current);
  if (!got.ok() || current == device) return got;
  const gpu::DriverResult changed = hip_api_.set_device(device);
  saved.is_changed = changed.ok();
  saved.previous = static_cast<gpu::Handle>(current);
  return changed;
}

void HipDriver::leave_context(const gpu::SavedContext& saved) {
  if (saved.is_changed) (void)hip_api_.set_device(static_cast<int>(saved.previous));
}

Result<std::vector<ProcessMemoryUsage>> HipDriver::processes(const gpu::DeviceInfo&) {
  return Status::unsupported("HIP does not list the processes on a device");
}

// For unknown addresses, some HIP versions fail and others return zeros. `info` stays kUnknown in
// both cases, so a failure is ignored.
gpu::DriverResult HipDriver::query_address(DeviceAddress at, gpu::AddressInfo& info) {
  return {CommonDriver::query_address(at, info).call, gpu::abi::kSuccess};
}

gpu::DriverResult HipDriver::import_fd(int fd, gpu::Handle& extent) {
  if (runtime_version_ >= kFirstVersionWithFdAsPointer) return CommonDriver::import_fd(fd, extent);
  return import_handle(&fd, gpu::abi::kHandlePosixFd, extent);
}

gpu::DriverResult HipDriver::enable_peer_access(int peer) {
  return hip_api_.device_enable_peer_access(peer, 0);
}

gpu::DriverResult HipDriver::disable_peer_access(int peer) {
  return hip_api_.device_disable_peer_access(peer);
}

gpu::DriverResult HipDriver::copy_to_peer(const PeerCopy& copy, StreamId stream) {
  return hip_api_.memcpy_peer_async(copy.to.value(), copy.to_device, copy.from.value(),
                                    copy.from_device, copy.bytes, gpu::native(stream));
}

}  // namespace ashlar::hip

namespace ashlar {
namespace {

// Names of the library, in order of preference. Only the development package installs the name
// without a version.
constexpr const char* kLibraryNames[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"};

}  // namespace

Result<std::unique_ptr<DeviceSet>> try_open_hip(const DriverOptions& options) {
  const char* const named[] = {options.library.c_str()};
  Result<DriverLibrary> library =
      options.library.empty() ? DriverLibrary::open(kLibraryNames) : DriverLibrary::open(named);
  if (!library.ok()) {
    return Status::unsupported(text("no HIP driver: ", library.status().message()));
  }
  const Result<hip::HipApi> api = hip::load_api(*library);
  if (!api.ok()) return api.status();
  return gpu::open_devices(std::make_unique<hip::HipDriver>(*std::move(library), *api));
}

}  // namespace ashlar
