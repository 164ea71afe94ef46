// SPDX-License-Identifier: Apache-2.0
//
// The HIP runtime behind the neutral functions of gpu/driver.h: what it does in its own way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/driver_library.h"
#include "device/gpu/vendor_driver.h"

namespace ashlar::hip {

inline constexpr int kAttributeMemoryPools = 88;

// From this version of the runtime on, a descriptor to import is passed itself where a pointer is
// expected; before it, the pointer leads to it.
inline constexpr int kFirstVersionWithFdAsPointer = 70100000;

// `shared` is what both vendors have; the others only HIP has, or has with arguments of its own.
// Names are the vendor's less their prefix.
struct Api {
  // Without virtual memory where the runtime has none.
  gpu::abi::Api shared;

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

// kUnsupported: the library lacks a function; the message names the first that are missing.
Result<Api> find_api(const DriverLibrary& library);

class HipDriver final : public gpu::VendorDriver {
 public:
  HipDriver(DriverLibrary library, const Api& api)
      : VendorDriver(std::move(library), api.shared), own_(api) {}

  std::string_view backend() const override { return "hip"; }
  std::string error_text(int code) const override;

  gpu::Outcome device_count(int& count) override;
  gpu::Outcome look_at(int device, gpu::DeviceFacts& facts) override;
  gpu::Outcome use(int device) override;
  void leave_for_good(int device) override;
  gpu::Outcome enter(int device, gpu::Entered& entered) override;
  void leave(const gpu::Entered& entered) override;
  Result<std::vector<ProcessUse>> processes(const gpu::DeviceFacts& facts) override;
  gpu::Outcome locate(DeviceAddress at, gpu::Location& location) override;
  gpu::Outcome import_fd(int fd, gpu::Handle& extent) override;
  gpu::Outcome enable_peer_access(int peer) override;
  gpu::Outcome disable_peer_access(int peer) override;
  gpu::Outcome copy_to_peer(const PeerCopy& copy, StreamId stream) override;

 private:
  const Api own_;
  int version_ = 0;  // of the runtime; set when devices are counted
};

}  // namespace ashlar::hip
