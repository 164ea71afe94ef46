// SPDX-License-Identifier: Apache-2.0
//
// Symmetric memory on any Device: extents that can be exported as file descriptors, as fabric
// handles or as both, whichever the device supports, and are mapped by every rank's device.
#pragma once

#include <memory>
#include <string>

#include "ashlar/device.h"
#include "symm/backends/backend.h"
#include "symm/backends/multicast/multicast.h"

namespace ashlar::symm {

class DeviceBackend final : public Backend {
 public:
  // `device` must outlive the result and all memory that it allocates. `multicast` is null if the
  // device has none. Returns kUnsupported if the device has no virtual memory that can be exported.
  static Result<std::unique_ptr<Backend>> make(Device& device,
                                               std::unique_ptr<MulticastDriver> multicast);

  std::string_view name() const override { return device_.properties().backend; }
  DeviceUuid device() const override { return device_.properties().uuid; }
  Result<std::shared_ptr<MappedMemory>> allocate(size_t bytes, size_t zero_bytes) override;
  Result<UniqueFd> export_fd(const MappedMemory& memory) override;
  Result<std::shared_ptr<MappedMemory>> import_fd(UniqueFd fd, size_t bytes) override;
  Status fd_availability() const override;
  Status fabric_availability() const override;
  Result<FabricHandle> export_fabric(const MappedMemory& memory) override;
  Result<std::shared_ptr<MappedMemory>> import_fabric(const FabricHandle& handle,
                                                      size_t bytes) override;
  MulticastDriver* multicast() override { return multicast_.get(); }
  Result<std::shared_ptr<MappedMemory>> adopt(std::shared_ptr<MappedMemory> memory) override;

  // Returns the extent behind `memory`. REQUIRES: `memory` is from a DeviceBackend.
  static ExtentId extent_of(const MappedMemory& memory);

 private:
  DeviceBackend(Device& device, std::unique_ptr<MulticastDriver> multicast)
      : device_(device), multicast_(std::move(multicast)) {}
  struct CreatedExtent {
    ExtentId extent;
    Status fabric_status{};  // MappedExtent::fabric_status
  };
  Result<CreatedExtent> create(size_t bytes);
  // Maps an imported extent, or returns the error from the import.
  Result<std::shared_ptr<MappedMemory>> map_imported(const Result<ExtentId>& extent, size_t bytes);
  Status unsupported_error(std::string_view what) const;
  // Maps an extent at newly reserved addresses. Takes ownership of the extent, even on failure.
  Result<std::shared_ptr<MappedMemory>> map(CreatedExtent created, size_t bytes);
  Status zero(DeviceAddress at, size_t bytes);
  // Returns the allocation granularity. If the device has multicast, memory of this granularity can
  // also be bound to multicast objects.
  size_t granularity_bytes() const;

  Device& device_;
  const std::unique_ptr<MulticastDriver> multicast_;
};

}  // namespace ashlar::symm
