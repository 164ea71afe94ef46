// SPDX-License-Identifier: Apache-2.0
//
// Implements the functions of driver.h that are specific to HIP.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/driver_library.h"
#include "device/gpu/common_driver.h"

namespace ashlar::hip {

inline constexpr int kAttributeMemoryPools = 88;

// Since this runtime version, hipMemImportFromShareableHandle takes the descriptor itself in place
// of a pointer. Older versions take a pointer to the descriptor.
inline constexpr int kFirstVersionWithFdAsPointer = 70100000;

// The functions of the HIP runtime. `shared` has the functions common to both vendors; the other
// functions exist only in HIP, or have different arguments. Names are AMD's names without the
// prefix `hip`.
struct HipApi {
  // The virtual memory functions are optional.
  gpu::abi::DriverApi shared;

  gpu::DriverFunction<const char*(int)> get_error_name;
  gpu::DriverFunction<const char*(int)> get_error_string;
  gpu::abi::Function<> get_last_error;
  gpu::abi::Function<int*> runtime_get_version;
  gpu::abi::Function<int*> get_device;
  gpu::abi::Function<int> set_device;
  gpu::abi::Function<int, unsigned> device_enable_peer_access;
  gpu::abi::Function<int> device_disable_peer_access;
  gpu::abi::Function<gpu::abi::Pointer, int, gpu::abi::Pointer, int, size_t, gpu::abi::Stream>
      memcpy_peer_async;
};

// Loads the driver functions. kUnsupported: some functions are missing; the message names up to
// three of them.
Result<HipApi> load_api(const DriverLibrary& library);

class HipDriver final : public gpu::CommonDriver {
 public:
  HipDriver(DriverLibrary library, const HipApi& api)
      : CommonDriver(std::move(library), api.shared), hip_api_(api) {}

  std::string_view backend() const override { return "hip"; }
  std::string error_text(int code) const override;

  gpu::DriverResult device_count(int& count) override;
  gpu::DriverResult query_device(int device, gpu::DeviceInfo& info) override;
  gpu::DriverResult retain_context(int device) override;
  void release_context(int device) override;
  gpu::DriverResult enter_context(int device, gpu::SavedContext& saved) override;
  void leave_context(const gpu::SavedContext& saved) override;
  Result<std::vector<ProcessMemoryUsage>> processes(const gpu::DeviceInfo& info) override;
  gpu::DriverResult query_address(DeviceAddress at, gpu::AddressInfo& info) override;
  gpu::DriverResult import_fd(int fd, gpu::Handle& extent) override;
  gpu::DriverResult enable_peer_access(int peer) override;
  gpu::DriverResult disable_peer_access(int peer) override;
  gpu::DriverResult copy_to_peer(const PeerCopy& copy, StreamId stream) override;

 private:
  const HipApi hip_api_;
  int runtime_version_ = 0;  // set by device_count
};

}  // namespace ashlar::hip
