// SPDX-License-Identifier: Apache-2.0
//
// Implements the functions of driver.h that are specific to CUDA.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/nvml.h"
#include "device/driver_library.h"
#include "device/gpu/common_driver.h"

namespace ashlar::cuda {

using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Kernel = struct KernelTag*;

inline constexpr int kAttributeVirtualMemory = 102;
inline constexpr int kAttributeRdmaWithVirtualMemory = 110;
inline constexpr int kAttributeMemoryPools = 115;
inline constexpr int kAttributeMulticast = 132;
inline constexpr int kMulticastGranularityMinimum = 0;

struct MulticastObjectProp {
  unsigned num_devices;
  size_t size;
  unsigned long long handle_types;
  unsigned long long flags;
};

// The primary contexts of the devices, and peer access between contexts.
struct ContextApi {
  gpu::abi::Function<Context*, int> retain_primary;
  gpu::abi::Function<int> release_primary;
  gpu::abi::Function<Context*> get_current;
  gpu::abi::Function<Context> push_current;
  gpu::abi::Function<Context*> pop_current;
  gpu::abi::Function<Context, unsigned> enable_peer_access;
  gpu::abi::Function<Context> disable_peer_access;
};

// Modules and the kernels in them.
struct ModuleApi {
  gpu::abi::Function<Module*, const void*> load_data;
  gpu::abi::Function<Module> unload;
  gpu::abi::Function<Kernel*, Module, const char*> get_function;
  gpu::abi::Function<Kernel> func_load;  // available since CUDA 12.4
  gpu::abi::Function<Kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     gpu::abi::Stream, void**, void**>
      launch_kernel;
};

// Multicast objects. Available since CUDA 12.1.
struct MulticastApi {
  gpu::abi::Function<gpu::abi::MemHandle*, const MulticastObjectProp*> create;
  gpu::abi::Function<gpu::abi::MemHandle, int> add_device;
  gpu::abi::Function<gpu::abi::MemHandle, size_t, gpu::abi::MemHandle, size_t, size_t,
                     unsigned long long>
      bind_mem;
  gpu::abi::Function<gpu::abi::MemHandle, int, size_t, size_t> unbind;
  gpu::abi::Function<size_t*, const MulticastObjectProp*, int> get_granularity;

  bool is_loaded() const {
    return create.is_loaded() && add_device.is_loaded() && bind_mem.is_loaded() &&
           unbind.is_loaded() && get_granularity.is_loaded();
  }
};

// The functions of the CUDA driver. `shared` has the functions common to both vendors; the other
// functions exist only in CUDA, or have different arguments. Names follow the rule of driver_abi.h.
struct CudaApi {
  gpu::abi::DriverApi shared;
  ContextApi context;
  ModuleApi module;
  MulticastApi multicast;
  gpu::abi::Function<int, const char**> get_error_name;
  gpu::abi::Function<int, const char**> get_error_string;
  gpu::abi::Function<int*, int> device_get;
  gpu::abi::Function<gpu::abi::Pointer, Context, gpu::abi::Pointer, Context, size_t,
                     gpu::abi::Stream>
      memcpy_peer_async;
};

// Loads the driver functions. kUnsupported: some functions are missing; the message names up to
// three of them.
Result<CudaApi> load_api(const DriverLibrary& library);

class CudaDriver final : public gpu::CommonDriver {
 public:
  // If `monitor` is an error, `processes` fails with its message.
  CudaDriver(DriverLibrary library, const CudaApi& api, Result<Nvml> monitor)
      : CommonDriver(std::move(library), api.shared),
        cuda_api_(api),
        monitor_(std::move(monitor)) {}

  std::string_view backend() const override { return "cuda"; }
  std::string error_text(int code) const override;

  gpu::DriverResult device_count(int& count) override;
  gpu::DriverResult query_device(int device, gpu::DeviceInfo& info) override;
  gpu::DriverResult retain_context(int device) override;
  void release_context(int device) override;
  gpu::DriverResult enter_context(int device, gpu::SavedContext& saved) override;
  void leave_context(const gpu::SavedContext& saved) override;
  Result<std::vector<ProcessMemoryUsage>> processes(const gpu::DeviceInfo& info) override;
  gpu::DriverResult query_address(DeviceAddress at, gpu::AddressInfo& info) override;
  // The multicast functions require that DeviceInfo::multicast_unavailable_reason is empty.
  gpu::DriverResult multicast_granularity(const MulticastRequest& request, size_t& bytes) override;
  gpu::DriverResult create_multicast(const MulticastRequest& request, gpu::Handle& object) override;
  gpu::DriverResult add_to_multicast(gpu::Handle object, int device) override;
  gpu::DriverResult bind_multicast(gpu::Handle object, gpu::Handle extent, size_t bytes) override;
  gpu::DriverResult unbind_multicast(gpu::Handle object, int device, size_t bytes) override;

  gpu::DriverResult enable_peer_access(int peer) override;
  gpu::DriverResult disable_peer_access(int peer) override;
  gpu::DriverResult copy_to_peer(const PeerCopy& copy, StreamId stream) override;
  gpu::DriverResult load_kernels(const void* image, gpu::Handle& kernels) override;
  gpu::DriverResult unload_kernels(gpu::Handle kernels) override;
  gpu::DriverResult find_kernel(gpu::Handle kernels, const char* name,
                                gpu::Handle& kernel) override;
  gpu::DriverResult launch(const LaunchRequest& launch, StreamId stream) override;

 private:
  std::string multicast_unavailable_reason(int device) const;

  const CudaApi cuda_api_;
  const Result<Nvml> monitor_;
  // The primary context of each device. retain_context sets it before any call that uses the
  // context.
  std::vector<Context> contexts_;
};

}  // namespace ashlar::cuda
