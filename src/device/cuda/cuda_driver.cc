// SPDX-License-Identifier: Apache-2.0
//
// Implements contexts, peer access, multicast, kernels and error messages with the CUDA driver API.
#include "device/cuda/cuda_driver.h"

#include "ashlar/devices.h"
#include "base/text.h"
#include "device/gpu/driver_errors.h"

namespace ashlar::cuda {

Result<CudaApi> load_api(const DriverLibrary& library) {
  CudaApi api;
  gpu::FunctionLoader loader(library, "cu");
  loader.require(api.get_error_name, "cuGetErrorName");
  loader.require(api.get_error_string, "cuGetErrorString");
  loader.require(api.device_get, "cuDeviceGet");
  loader.require(api.context.retain_primary, "cuDevicePrimaryCtxRetain");
  loader.require(api.context.release_primary, "cuDevicePrimaryCtxRelease_v2");
  loader.require(api.context.get_current, "cuCtxGetCurrent");
  loader.require(api.context.push_current, "cuCtxPushCurrent_v2");
  loader.require(api.context.pop_current, "cuCtxPopCurrent_v2");
  loader.require(api.context.enable_peer_access, "cuCtxEnablePeerAccess");
  loader.require(api.context.disable_peer_access, "cuCtxDisablePeerAccess");
  loader.require(api.memcpy_peer_async, "cuMemcpyPeerAsync");
  loader.require(api.module.load_data, "cuModuleLoadData");
  loader.require(api.module.unload, "cuModuleUnload");
  loader.require(api.module.get_function, "cuModuleGetFunction");
  loader.optional(api.module.func_load, {"cuFuncLoad"});
  loader.require(api.module.launch_kernel, "cuLaunchKernel");
  loader.optional(api.multicast.create, {"cuMulticastCreate"});
  loader.optional(api.multicast.add_device, {"cuMulticastAddDevice"});
  loader.optional(api.multicast.bind_mem, {"cuMulticastBindMem"});
  loader.optional(api.multicast.unbind, {"cuMulticastUnbind"});
  loader.optional(api.multicast.get_granularity, {"cuMulticastGetGranularity"});
  load_api(loader, api.shared);
  load_virtual_memory(loader, api.shared);
  if (Status complete = loader.status(); !complete.ok()) return complete;
  return api;
}

std::string CudaDriver::error_text(int code) const {
  const char* name = nullptr;
  const char* description = nullptr;
  (void)cuda_api_.get_error_name(code, &name);
  (void)cuda_api_.get_error_string(code, &description);
  return format_error(code, name, description);
}

gpu::DriverResult CudaDriver::device_count(int& count) {
  const gpu::DriverResult counted = CommonDriver::device_count(count);
  contexts_.assign(static_cast<size_t>(count), nullptr);
  return counted;
}

gpu::DriverResult CudaDriver::query_device(int device, gpu::DeviceInfo& info) {
  // Asks the driver for the handle. Other functions pass the ordinal instead, which equals the
  // handle in all drivers so far.
  int handle = 0;
  if (const gpu::DriverResult got = cuda_api_.device_get(&handle, device); !got.ok()) return got;
  if (const gpu::DriverResult got = CommonDriver::query_device(handle, info); !got.ok()) return got;
  info.has_stream_ordered_pool = has_attribute(handle, kAttributeMemoryPools);
  info.has_rdma = has_attribute(handle, kAttributeRdmaWithVirtualMemory);
  info.multicast_unavailable_reason = multicast_unavailable_reason(handle);
  if (!has_attribute(handle, kAttributeVirtualMemory)) return {};
  return granularity(device, info.granularity_bytes);
}

std::string CudaDriver::multicast_unavailable_reason(int device) const {
  if (!cuda_api_.multicast.is_loaded()) {
    return "multicast requires a CUDA driver of version 12.1 or later";
  }
  if (has_attribute(device, kAttributeMulticast)) return {};
  return "this device has no multicast: it requires GPUs of compute capability 9.0 or later behind "
         "an NVSwitch, and a running fabric manager";
}

gpu::DriverResult CudaDriver::retain_context(int device) {
  return cuda_api_.context.retain_primary(&contexts_[static_cast<size_t>(device)], device);
}

void CudaDriver::release_context(int device) { (void)cuda_api_.context.release_primary(device); }

// Makes a single driver call if the context is already current, which is the usual case.
gpu::DriverResult CudaDriver::enter_context(int device, gpu::SavedContext& saved) {
  const Context context = contexts_[static_cast<size_t>(device)];
  Context current = nullptr;
  const gpu::DriverResult got = cuda_api_.context.get_current(&current);
  if (got.ok() && current == context) return got;
  const gpu::DriverResult pushed = cuda_api_.context.push_current(context);
  saved.is_changed = pushed.ok();
  return pushed;
}

void CudaDriver::leave_context(const gpu::SavedContext& saved) {
  Context popped = nullptr;
  if (saved.is_changed) (void)cuda_api_.context.pop_current(&popped);
}

Result<std::vector<ProcessMemoryUsage>> CudaDriver::processes(const gpu::DeviceInfo& info) {
  if (!monitor_.ok()) {
    return Status::unsupported(text("NVML is not available: ", monitor_.status().message()));
  }
  return monitor_->processes(info.uuid);
}

// If the driver does not know the address, a query of several attributes succeeds with zeros; if
// the value cannot be an address, the query fails. `info` stays kUnknown in both cases, so this
// failure is ignored.
gpu::DriverResult CudaDriver::query_address(DeviceAddress at, gpu::AddressInfo& info) {
  const gpu::DriverResult got = CommonDriver::query_address(at, info);
  return got.code == gpu::kInvalidValue ? gpu::DriverResult{got.call, gpu::abi::kSuccess} : got;
}

// --- multicast

namespace {

MulticastObjectProp properties_for(const gpu::Driver::MulticastRequest& request) {
  MulticastObjectProp properties{};
  properties.num_devices = static_cast<unsigned>(request.device_count);
  properties.size = request.bytes;
  properties.handle_types =
      static_cast<unsigned>((request.can_export_fd ? gpu::abi::kHandlePosixFd : 0) |
                            (request.can_export_fabric ? gpu::abi::kHandleFabric : 0));
  return properties;
}

}  // namespace

gpu::DriverResult CudaDriver::multicast_granularity(const MulticastRequest& request,
                                                    size_t& bytes) {
  const MulticastObjectProp properties = properties_for(request);
  return cuda_api_.multicast.get_granularity(&bytes, &properties, kMulticastGranularityMinimum);
}

gpu::DriverResult CudaDriver::create_multicast(const MulticastRequest& request,
                                               gpu::Handle& object) {
  const MulticastObjectProp properties = properties_for(request);
  gpu::abi::MemHandle created = 0;
  const gpu::DriverResult result = cuda_api_.multicast.create(&created, &properties);
  object = created;
  return result;
}

gpu::DriverResult CudaDriver::add_to_multicast(gpu::Handle object, int device) {
  return cuda_api_.multicast.add_device(object, device);
}

gpu::DriverResult CudaDriver::bind_multicast(gpu::Handle object, gpu::Handle extent, size_t bytes) {
  return cuda_api_.multicast.bind_mem(object, 0, extent, 0, bytes, 0);
}

gpu::DriverResult CudaDriver::unbind_multicast(gpu::Handle object, int device, size_t bytes) {
  return cuda_api_.multicast.unbind(object, device, 0, bytes);
}

// --- peers

gpu::DriverResult CudaDriver::enable_peer_access(int peer) {
  return cuda_api_.context.enable_peer_access(contexts_[static_cast<size_t>(peer)], 0);
}

gpu::DriverResult CudaDriver::disable_peer_access(int peer) {
  return cuda_api_.context.disable_peer_access(contexts_[static_cast<size_t>(peer)]);
}

gpu::DriverResult CudaDriver::copy_to_peer(const PeerCopy& copy, StreamId stream) {
  const Context to = contexts_[static_cast<size_t>(copy.to_device)];
  const Context from = contexts_[static_cast<size_t>(copy.from_device)];
  return cuda_api_.memcpy_peer_async(copy.to.value(), to, copy.from.value(), from, copy.bytes,
                                     gpu::native(stream));
}

gpu::DriverResult CudaDriver::load_kernels(const void* image, gpu::Handle& kernels) {
  Module created = nullptr;
  const gpu::DriverResult result = cuda_api_.module.load_data(&created, image);
  kernels = gpu::handle_of(created);
  return result;
}

gpu::DriverResult CudaDriver::unload_kernels(gpu::Handle kernels) {
  return cuda_api_.module.unload(gpu::native<Module>(kernels));
}

// Since CUDA 12.2, a kernel is by default loaded at its first launch, which may synchronize the
// device. That would deadlock if a running kernel of Ashlar waited for the new kernel. The kernel
// is therefore loaded here, if the driver has cuFuncLoad (since CUDA 12.4).
gpu::DriverResult CudaDriver::find_kernel(gpu::Handle kernels, const char* name,
                                          gpu::Handle& kernel) {
  Kernel found = nullptr;
  const gpu::DriverResult result =
      cuda_api_.module.get_function(&found, gpu::native<Module>(kernels), name);
  kernel = gpu::handle_of(found);
  if (!result.ok() || !cuda_api_.module.func_load.is_loaded()) return result;
  return cuda_api_.module.func_load(found);
}

gpu::DriverResult CudaDriver::launch(const LaunchRequest& launch, StreamId stream) {
  void* arguments[] = {const_cast<void*>(launch.argument)};
  return cuda_api_.module.launch_kernel(gpu::native<Kernel>(launch.kernel), launch.block_count, 1,
                                        1, launch.thread_count, 1, 1, 0, gpu::native(stream),
                                        arguments, nullptr);
}

}  // namespace ashlar::cuda

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
  const Result<cuda::CudaApi> api = cuda::load_api(*library);
  if (!api.ok()) return api.status();
  return gpu::open_devices(std::make_unique<cuda::CudaDriver>(
      *std::move(library), *api, cuda::Nvml::open(options.monitor_library)));
}

}  // namespace ashlar
