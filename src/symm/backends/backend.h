// SPDX-License-Identifier: Apache-2.0
//
// Where symmetric memory comes from, and how another process gets at it: allocate here, export,
// import there. `host` is memory of the system (memfd); devices bring back ends of their own.
// Knows no ranks. Thread safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "ashlar/device.h"
#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar::symm {

using DeviceUuid = std::array<uint8_t, 16>;

// A range of addresses of this process with memory behind it: its own, or another process's.
// Unmapped when the last owner goes: the block, and every table of peers that names it. The memory
// itself lives as long as any process has it mapped, so that its owner may be the first to go.
class MappedMemory {
 public:
  virtual ~MappedMemory() = default;
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  // Of a device's memory, an address that only the device can use.
  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 protected:
  MappedMemory(std::byte* base, size_t bytes) : base_(base), bytes_(bytes) {}

 private:
  std::byte* const base_;
  const size_t bytes_;
};

class MulticastDriver;

class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual std::string_view name() const = 0;
  // Which device, whatever it is called in this process. All zero: the host's memory, which any
  // number of ranks share.
  virtual DeviceUuid device() const = 0;

  // At least so many bytes, aligned to 128; the first `zero_bytes` are zero when this returns.
  virtual Result<std::shared_ptr<MappedMemory>> allocate(size_t bytes, size_t zero_bytes) = 0;
  // What another process of this machine imports. REQUIRES: allocated here.
  virtual Result<UniqueFd> export_fd(const MappedMemory& memory) = 0;
  // Ok, or why there are no descriptors, or no fabric handles, which other machines import too.
  virtual Status fd_availability() const { return {}; }
  virtual Status fabric_availability() const;
  // REQUIRES, for both: allocated here; the handle is as good as the memory lives.
  virtual Result<FabricHandle> export_fabric(const MappedMemory& memory);
  virtual Result<std::shared_ptr<MappedMemory>> import_fabric(const FabricHandle& handle,
                                                              size_t bytes);
  // Null: there is none here.
  virtual MulticastDriver* multicast() { return nullptr; }
  // Memory that another rank of this process has allocated, as this one can use it.
  virtual Result<std::shared_ptr<MappedMemory>> adopt(std::shared_ptr<MappedMemory> lent) {
    return lent;
  }
  // kFormat: what came is not memory of `bytes` bytes that stays as it is.
  virtual Result<std::shared_ptr<MappedMemory>> import_fd(UniqueFd fd, size_t bytes) = 0;
};

// Memory of the system: sealed, so that nobody can take it away from under those who mapped it.
std::unique_ptr<Backend> make_host_backend();

}  // namespace ashlar::symm
