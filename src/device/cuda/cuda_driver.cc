// SPDX-License-Identifier: Apache-2.0
//
// Contexts, peers, and how CUDA says what went wrong.
#include "device/cuda/cuda_driver.h"

#include "base/text.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/native.h"

namespace ashlar::cuda {

Result<Api> find_api(const DriverLibrary& library) {
  Api api;
  gpu::FunctionFinder finder(library, "cu");
  finder.need(api.get_error_name, "cuGetErrorName");
  finder.need(api.get_error_string, "cuGetErrorString");
  finder.need(api.device_get, "cuDeviceGet");
  finder.need(api.device_primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  finder.need(api.device_primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
  finder.need(api.ctx_get_current, "cuCtxGetCurrent");
  finder.need(api.ctx_push_current, "cuCtxPushCurrent_v2");
  finder.need(api.ctx_pop_current, "cuCtxPopCurrent_v2");
  finder.need(api.ctx_enable_peer_access, "cuCtxEnablePeerAccess");
  finder.need(api.ctx_disable_peer_access, "cuCtxDisablePeerAccess");
  finder.need(api.memcpy_peer_async, "cuMemcpyPeerAsync");
  finder.need(api.module_load_data, "cuModuleLoadData");
  finder.need(api.module_unload, "cuModuleUnload");
  finder.need(api.module_get_function, "cuModuleGetFunction");
  finder.want(api.func_load, {"cuFuncLoad"});
  finder.need(api.launch_kernel, "cuLaunchKernel");
  finder.want(api.multicast_create, {"cuMulticastCreate"});
  finder.want(api.multicast_add_device, {"cuMulticastAddDevice"});
  finder.want(api.multicast_bind_mem, {"cuMulticastBindMem"});
  finder.want(api.multicast_unbind, {"cuMulticastUnbind"});
  finder.want(api.multicast_get_granularity, {"cuMulticastGetGranularity"});
  find_api(finder, api.shared);
  find_virtual_memory(finder, api.shared);
  if (Status complete = finder.status(); !complete.ok()) return complete;
  return api;
}

std::string CudaDriver::error_text(int code) const {
  const char* name = nullptr;
  const char* explained = nullptr;
  (void)own_.get_error_name(code, &name);
  (void)own_.get_error_string(code, &explained);
  return in_words(code, name, explained);
}

gpu::Outcome CudaDriver::device_count(int& count) {
  const gpu::Outcome counted = VendorDriver::device_count(count);
  contexts_.assign(static_cast<size_t>(count), nullptr);
  return counted;
}

gpu::Outcome CudaDriver::look_at(int device, gpu::DeviceFacts& facts) {
  // A device's number is its handle, for every driver so far; the driver is asked all the same.
  int handle = 0;
  if (const gpu::Outcome got = own_.device_get(&handle, device); !got.ok()) return got;
  if (const gpu::Outcome got = VendorDriver::look_at(handle, facts); !got.ok()) return got;
  facts.has_stream_pool = has_attribute(handle, kAttributeMemoryPools);
  facts.has_rdma = has_attribute(handle, kAttributeRdmaWithVirtualMemory);
  facts.no_multicast = why_no_multicast(handle);
  if (!has_attribute(handle, kAttributeVirtualMemory)) return {};
  return granularity(device, facts.granularity_bytes);
}

std::string CudaDriver::why_no_multicast(int device) const {
  if (!own_.has_multicast()) {
    return "this driver knows nothing of it: CUDA 12.1 is the first whose driver does";
  }
  if (has_attribute(device, kAttributeMulticast)) return {};
  return "the driver says that this device has none: it takes GPUs behind an NVSwitch, from "
         "compute "
         "capability 9.0 on, and a fabric manager that runs";
}

gpu::Outcome CudaDriver::use(int device) {
  return own_.device_primary_ctx_retain(&contexts_[static_cast<size_t>(device)], device);
}

void CudaDriver::leave_for_good(int device) { (void)own_.device_primary_ctx_release(device); }

// The usual case is a thread that is there already, and costs one call.
gpu::Outcome CudaDriver::enter(int device, gpu::Entered& entered) {
  const Context wanted = contexts_[static_cast<size_t>(device)];
  Context current = nullptr;
  const gpu::Outcome got = own_.ctx_get_current(&current);
  if (got.ok() && current == wanted) return got;
  const gpu::Outcome pushed = own_.ctx_push_current(wanted);
  entered.is_changed = pushed.ok();
  return pushed;
}

void CudaDriver::leave(const gpu::Entered& entered) {
  Context popped = nullptr;
  if (entered.is_changed) (void)own_.ctx_pop_current(&popped);
}

Result<std::vector<ProcessUse>> CudaDriver::processes(const gpu::DeviceFacts& facts) {
  if (!monitor_.ok()) {
    return Status::unsupported(text("no monitor: ", monitor_.status().message()));
  }
  return monitor_->processes(facts.uuid);
}

// Asked for several attributes at once, the driver answers 0 for an address it does not know, or
// calls one that cannot be an address invalid.
gpu::Outcome CudaDriver::locate(DeviceAddress at, gpu::Location& location) {
  const gpu::Outcome got = VendorDriver::locate(at, location);
  return got.code == gpu::kInvalidValue ? gpu::Outcome{got.call, gpu::abi::kSuccess} : got;
}

// --- multicast ----------------------------------------------------------------------------------

namespace {

MulticastObjectProp properties_for(const gpu::Driver::Multicast& wanted) {
  MulticastObjectProp properties{};
  properties.num_devices = static_cast<unsigned>(wanted.device_count);
  properties.size = wanted.bytes;
  properties.handle_types =
      static_cast<unsigned>((wanted.export_fd ? gpu::abi::kHandlePosixFd : 0) |
                            (wanted.export_fabric ? gpu::abi::kHandleFabric : 0));
  return properties;
}

}  // namespace

gpu::Outcome CudaDriver::multicast_granularity(const Multicast& wanted, size_t& bytes) {
  const MulticastObjectProp properties = properties_for(wanted);
  return own_.multicast_get_granularity(&bytes, &properties, kMulticastGranularityMinimum);
}

gpu::Outcome CudaDriver::create_multicast(const Multicast& wanted, gpu::Handle& object) {
  const MulticastObjectProp properties = properties_for(wanted);
  gpu::abi::Extent made = 0;
  const gpu::Outcome outcome = own_.multicast_create(&made, &properties);
  object = made;
  return outcome;
}

gpu::Outcome CudaDriver::add_to_multicast(gpu::Handle object, int device) {
  return own_.multicast_add_device(object, device);
}

gpu::Outcome CudaDriver::bind_multicast(gpu::Handle object, gpu::Handle extent, size_t bytes) {
  return own_.multicast_bind_mem(object, 0, extent, 0, bytes, 0);
}

gpu::Outcome CudaDriver::unbind_multicast(gpu::Handle object, int device, size_t bytes) {
  return own_.multicast_unbind(object, device, 0, bytes);
}

// --- peers --------------------------------------------------------------------------------------

gpu::Outcome CudaDriver::enable_peer_access(int peer) {
  return own_.ctx_enable_peer_access(contexts_[static_cast<size_t>(peer)], 0);
}

gpu::Outcome CudaDriver::disable_peer_access(int peer) {
  return own_.ctx_disable_peer_access(contexts_[static_cast<size_t>(peer)]);
}

gpu::Outcome CudaDriver::copy_to_peer(const PeerCopy& copy, StreamId stream) {
  const Context to = contexts_[static_cast<size_t>(copy.to_device)];
  const Context from = contexts_[static_cast<size_t>(copy.from_device)];
  return own_.memcpy_peer_async(copy.to.value(), to, copy.from.value(), from, copy.bytes,
                                gpu::native(stream));
}

gpu::Outcome CudaDriver::load_kernels(const void* image, gpu::Handle& kernels) {
  Module made = nullptr;
  const gpu::Outcome outcome = own_.module_load_data(&made, image);
  kernels = gpu::number_of(made);
  return outcome;
}

gpu::Outcome CudaDriver::unload_kernels(gpu::Handle kernels) {
  return own_.module_unload(gpu::native<Module>(kernels));
}

// Since CUDA 12.2 a kernel is put onto the device when it is first used, which may wait for all
// that the device does: for ever, if one of our kernels waits there for this very one.
gpu::Outcome CudaDriver::find_kernel(gpu::Handle kernels, const char* name, gpu::Handle& kernel) {
  Kernel found = nullptr;
  const gpu::Outcome outcome = own_.module_get_function(&found, gpu::native<Module>(kernels), name);
  kernel = gpu::number_of(found);
  if (!outcome.ok() || !own_.func_load.is_there()) return outcome;
  return own_.func_load(found);
}

gpu::Outcome CudaDriver::launch(const Launch& launch, StreamId stream) {
  void* arguments[] = {const_cast<void*>(launch.argument)};
  return own_.launch_kernel(gpu::native<Kernel>(launch.kernel), launch.block_count, 1, 1,
                            launch.thread_count, 1, 1, 0, gpu::native(stream), arguments, nullptr);
}

}  // namespace ashlar::cuda
