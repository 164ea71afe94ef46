// SPDX-License-Identifier: Apache-2.0
//
// Symmetric memory of a device, whichever it is: extents that are created to travel as descriptors
// and, where the device can, as fabric handles; mapped here and at every other rank's device.
// Written to the contract of `Device` alone.
#pragma once

#include <memory>
#include <string>

#include "ashlar/device.h"
#include "symm/backends/backend.h"
#include "symm/backends/multicast/multicast.h"

namespace ashlar::symm {

class DeviceBackend final : public Backend {
 public:
  // `device` outlives it, and all memory that comes from it. kUnsupported: it has no virtual
  // memory, or none that other processes can have.
  // `multicast`: the device's; null: it has none.
  static Result<std::unique_ptr<Backend>> over(Device& device,
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
  Result<std::shared_ptr<MappedMemory>> adopt(std::shared_ptr<MappedMemory> lent) override;

  // What is behind it. REQUIRES: memory of a back end of this kind.
  static ExtentId extent_of(const MappedMemory& memory);

 private:
  DeviceBackend(Device& device, std::unique_ptr<MulticastDriver> multicast)
      : device_(device), multicast_(std::move(multicast)) {}
  struct Created {
    ExtentId extent;
    Status no_fabric{};  // why it does not travel as a fabric handle, although the device has them
  };
  Result<Created> create(size_t bytes);
  // An extent that was imported as `what`, or why not.
  Result<std::shared_ptr<MappedMemory>> map_imported(const Result<ExtentId>& extent, size_t bytes);
  Status cannot(std::string_view what) const;
  // Puts an extent behind addresses of its own, for this device. Takes the extent in any case.
  Result<std::shared_ptr<MappedMemory>> map(Created created, size_t bytes);
  Status zero(DeviceAddress at, size_t bytes);
  // Of all that is allocated, so that it can be bound to multicast where there is such.
  size_t granularity_bytes() const;

  Device& device_;
  const std::unique_ptr<MulticastDriver> multicast_;
};

}  // namespace ashlar::symm
