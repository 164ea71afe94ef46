// SPDX-License-Identifier: Apache-2.0
//
// Allocates symmetric memory, exports it to other processes and imports their memory. The back end
// `host` provides system memory (memfd); devices have their own back ends. Independent of ranks and
// groups. Thread safe.
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

// A mapped address range of this process, backed by memory of this or another process. Unmapped
// when its last owner (such as the heap block or a peer table) is destroyed. The physical memory
// lives as long as any process has it mapped, so the process that allocated it may exit first.
class MappedMemory {
 public:
  virtual ~MappedMemory() = default;
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  // The start of the range. For device memory this is a device address, which the CPU must not
  // access.
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
  // Identifies the device across processes. All zero for host memory, which any number of ranks may
  // share.
  virtual DeviceUuid device() const = 0;

  // Allocates at least `bytes` bytes, aligned to 128 bytes. The first `zero_bytes` bytes are zero
  // on return.
  virtual Result<std::shared_ptr<MappedMemory>> allocate(size_t bytes, size_t zero_bytes) = 0;
  // Exports a descriptor for other processes on this machine. REQUIRES: this back end allocated the
  // memory.
  virtual Result<UniqueFd> export_fd(const MappedMemory& memory) = 0;
  // Returns ok, or why memory cannot be exported as a descriptor.
  virtual Status fd_availability() const { return {}; }
  // Returns ok, or why memory cannot be exported as a fabric handle, which processes on other
  // machines can import.
  virtual Status fabric_availability() const;
  // Exports a fabric handle, which is valid while the memory lives. REQUIRES: this back end
  // allocated the memory.
  virtual Result<FabricHandle> export_fabric(const MappedMemory& memory);
  virtual Result<std::shared_ptr<MappedMemory>> import_fabric(const FabricHandle& handle,
                                                              size_t bytes);
  // Returns the back end's multicast driver, or null if it has none.
  virtual MulticastDriver* multicast() { return nullptr; }
  // Makes memory that another rank of this process has allocated usable by this rank.
  virtual Result<std::shared_ptr<MappedMemory>> adopt(std::shared_ptr<MappedMemory> memory) {
    return memory;
  }
  // Maps memory that another process has exported. Returns kFormat if the back end detects that the
  // descriptor is not symmetric memory of `bytes` bytes.
  virtual Result<std::shared_ptr<MappedMemory>> import_fd(UniqueFd fd, size_t bytes) = 0;
};

// Returns the back end for system memory. The memory is sealed against resizing, so that a peer
// cannot truncate it while it is mapped.
std::unique_ptr<Backend> make_host_backend();

}  // namespace ashlar::symm
