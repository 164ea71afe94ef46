// SPDX-License-Identifier: Apache-2.0
//
// The thread's device, peers, and how HIP says what went wrong.
#include "device/hip/hip_driver.h"

#include "device/gpu/native.h"

namespace ashlar::hip {

Result<Api> find_api(const DriverLibrary& library) {
  Api api;
  gpu::FunctionFinder finder(library, "hip");
  finder.need(api.get_error_name, "hipGetErrorName");
  finder.need(api.get_error_string, "hipGetErrorString");
  finder.need(api.get_last_error, "hipGetLastError");
  // The runtime keeps the failure of a call for whoever asks for the thread's last error next, and
  // others in the process do: what is told here is taken back there.
  finder.call_after_failures(api.get_last_error);
  finder.need(api.runtime_get_version, "hipRuntimeGetVersion");
  finder.need(api.get_device, "hipGetDevice");
  finder.need(api.set_device, "hipSetDevice");
  finder.need(api.device_enable_peer_access, "hipDeviceEnablePeerAccess");
  finder.need(api.device_disable_peer_access, "hipDeviceDisablePeerAccess");
  finder.need(api.memcpy_peer_async, "hipMemcpyPeerAsync");
  find_api(finder, api.shared);
  // All of it, or it is a runtime without.
  if (library.find("hipMemImportFromShareableHandle") != nullptr) {
    find_virtual_memory(finder, api.shared);
  }
  if (Status complete = finder.status(); !complete.ok()) return complete;
  return api;
}

std::string HipDriver::error_text(int code) const {
  return in_words(code, own_.get_error_name(code), own_.get_error_string(code));
}

gpu::Outcome HipDriver::device_count(int& count) {
  const gpu::Outcome counted = VendorDriver::device_count(count);
  if (!counted.ok() || count == 0) return counted;
  return own_.runtime_get_version(&version_);
}

gpu::Outcome HipDriver::look_at(int device, gpu::DeviceFacts& facts) {
  if (const gpu::Outcome got = VendorDriver::look_at(device, facts); !got.ok()) return got;
  facts.has_stream_pool = has_attribute(device, kAttributeMemoryPools);
  // A device without virtual memory is an answer too.
  const bool has_functions = api().mem_get_allocation_granularity.is_there();
  if (!has_functions || !granularity(device, facts.granularity_bytes).ok()) {
    facts.granularity_bytes = 0;
  }
  return {};
}

// The runtime makes its context for a device when a thread first works in it, and keeps it.
gpu::Outcome HipDriver::use(int) { return {}; }

void HipDriver::leave_for_good(int) {}

gpu::Outcome HipDriver::enter(int device, gpu::Entered& entered) {
  int current = -1;
  const gpu::Outcome got = own_.get_device(&current);
  if (!got.ok() || current == device) return got;
  const gpu::Outcome changed = own_.set_device(device);
  entered.is_changed = changed.ok();
  entered.before = static_cast<gpu::Handle>(current);
  return changed;
}

void HipDriver::leave(const gpu::Entered& entered) {
  if (entered.is_changed) (void)own_.set_device(static_cast<int>(entered.before));
}

Result<std::vector<ProcessUse>> HipDriver::processes(const gpu::DeviceFacts&) {
  return Status::unsupported("HIP does not tell which processes use a device");
}

// An address that it does not know is an error for HIP in some versions, and zeros in others.
gpu::Outcome HipDriver::locate(DeviceAddress at, gpu::Location& location) {
  return {VendorDriver::locate(at, location).call, gpu::abi::kSuccess};
}

gpu::Outcome HipDriver::import_fd(int fd, gpu::Handle& extent) {
  if (version_ >= kFirstVersionWithFdAsPointer) return VendorDriver::import_fd(fd, extent);
  return import_handle(&fd, gpu::abi::kHandlePosixFd, extent);
}

gpu::Outcome HipDriver::enable_peer_access(int peer) {
  return own_.device_enable_peer_access(peer, 0);
}

gpu::Outcome HipDriver::disable_peer_access(int peer) {
  return own_.device_disable_peer_access(peer);
}

gpu::Outcome HipDriver::copy_to_peer(const PeerCopy& copy, StreamId stream) {
  return own_.memcpy_peer_async(copy.to.value(), copy.to_device, copy.from.value(),
                                copy.from_device, copy.bytes, gpu::native(stream));
}

}  // namespace ashlar::hip
