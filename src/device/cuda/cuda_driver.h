// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver behind the neutral functions of gpu/driver.h: what it does in its own way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/nvml.h"
#include "device/driver_library.h"
#include "device/gpu/vendor_driver.h"

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

// `shared` is what both vendors have; the others only CUDA has, or has with arguments of its own.
// Names are the vendor's less their prefix.
struct Api {
  gpu::abi::Api shared;

  gpu::abi::Function<int, const char**> get_error_name;
  gpu::abi::Function<int, const char**> get_error_string;
  gpu::abi::Function<int*, int> device_get;
  gpu::abi::Function<Context*, int> device_primary_ctx_retain;
  gpu::abi::Function<int> device_primary_ctx_release;
  gpu::abi::Function<Context*> ctx_get_current;
  gpu::abi::Function<Context> ctx_push_current;
  gpu::abi::Function<Context*> ctx_pop_current;
  gpu::abi::Function<Context, unsigned> ctx_enable_peer_access;
  gpu::abi::Function<Context> ctx_disable_peer_access;
  gpu::abi::Function<gpu::abi::Pointer, Context, gpu::abi::Pointer, Context, size_t,
                     gpu::abi::Stream>
      memcpy_peer_async;
  gpu::abi::Function<Module*, const void*> module_load_data;
  gpu::abi::Function<Module> module_unload;
  gpu::abi::Function<Kernel*, Module, const char*> module_get_function;
  gpu::abi::Function<Kernel> func_load;  // since CUDA 12.4
  gpu::abi::Function<Kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     gpu::abi::Stream, void**, void**>
      launch_kernel;

  // Since CUDA 12.1: all of them, or none.
  gpu::abi::Function<gpu::abi::Extent*, const MulticastObjectProp*> multicast_create;
  gpu::abi::Function<gpu::abi::Extent, int> multicast_add_device;
  gpu::abi::Function<gpu::abi::Extent, size_t, gpu::abi::Extent, size_t, size_t, unsigned long long>
      multicast_bind_mem;
  gpu::abi::Function<gpu::abi::Extent, int, size_t, size_t> multicast_unbind;
  gpu::abi::Function<size_t*, const MulticastObjectProp*, int> multicast_get_granularity;

  bool has_multicast() const {
    return multicast_create.is_there() && multicast_add_device.is_there() &&
           multicast_bind_mem.is_there() && multicast_unbind.is_there() &&
           multicast_get_granularity.is_there();
  }
};

// kUnsupported: the library lacks a function; the message names the first that are missing.
Result<Api> find_api(const DriverLibrary& library);

class CudaDriver final : public gpu::VendorDriver {
 public:
  // `monitor` fails where there is none; then its reason is what `processes` answers.
  CudaDriver(DriverLibrary library, const Api& api, Result<Nvml> monitor)
      : VendorDriver(std::move(library), api.shared), own_(api), monitor_(std::move(monitor)) {}

  std::string_view backend() const override { return "cuda"; }
  std::string error_text(int code) const override;

  gpu::Outcome device_count(int& count) override;
  gpu::Outcome look_at(int device, gpu::DeviceFacts& facts) override;
  gpu::Outcome use(int device) override;
  void leave_for_good(int device) override;
  gpu::Outcome enter(int device, gpu::Entered& entered) override;
  void leave(const gpu::Entered& entered) override;
  Result<std::vector<ProcessUse>> processes(const gpu::DeviceFacts& facts) override;
  gpu::Outcome locate(DeviceAddress at, gpu::Location& location) override;
  // REQUIRES, for these: DeviceFacts::no_multicast is empty.
  gpu::Outcome multicast_granularity(const Multicast& wanted, size_t& bytes) override;
  gpu::Outcome create_multicast(const Multicast& wanted, gpu::Handle& object) override;
  gpu::Outcome add_to_multicast(gpu::Handle object, int device) override;
  gpu::Outcome bind_multicast(gpu::Handle object, gpu::Handle extent, size_t bytes) override;
  gpu::Outcome unbind_multicast(gpu::Handle object, int device, size_t bytes) override;
  gpu::Outcome enable_peer_access(int peer) override;
  gpu::Outcome disable_peer_access(int peer) override;
  gpu::Outcome copy_to_peer(const PeerCopy& copy, StreamId stream) override;
  gpu::Outcome load_kernels(const void* image, gpu::Handle& kernels) override;
  gpu::Outcome unload_kernels(gpu::Handle kernels) override;
  gpu::Outcome find_kernel(gpu::Handle kernels, const char* name, gpu::Handle& kernel) override;
  gpu::Outcome launch(const Launch& launch, StreamId stream) override;

 private:
  std::string why_no_multicast(int device) const;

  const Api own_;
  const Result<Nvml> monitor_;
  // By device. Each is set by `use` before anything else is asked of the device.
  std::vector<Context> contexts_;
};

}  // namespace ashlar::cuda
