// SPDX-License-Identifier: Apache-2.0
//
// A device without virtual memory that otherwise behaves like the wrapped device, for tests of
// engines on such devices.
#pragma once

#include "device/forwarding_device.h"

namespace ashlar::contract {

class PlainDevice final : public ForwardingDevice {
 public:
  // REQUIRES: `device` outlives this object.
  explicit PlainDevice(Device& device)
      : ForwardingDevice(device), properties_(device.properties()) {
    properties_.has_virtual_memory = false;
    properties_.granularity_bytes = 0;
    properties_.can_alias = false;
    properties_.alias_probe = "not probed: the device has no virtual memory";
    properties_.can_export_fd = false;
    properties_.can_export_fabric = false;
    properties_.can_export_imported = false;
  }

  const DeviceProperties& properties() const override { return properties_; }
  Result<DeviceAddress> reserve(size_t, const ReserveOptions&) override {
    return no_virtual_memory();
  }
  Status free_addresses(AddressRange) override { return no_virtual_memory(); }
  Result<ExtentId> create(size_t, const CreateOptions&) override { return no_virtual_memory(); }
  Status release(ExtentId) override { return no_virtual_memory(); }
  Status map(DeviceAddress, ExtentId) override { return no_virtual_memory(); }
  Status set_access(AddressRange, DeviceIndex, Access) override { return no_virtual_memory(); }
  Status unmap(AddressRange) override { return no_virtual_memory(); }
  Result<UniqueFd> export_fd(ExtentId) override { return no_virtual_memory(); }
  Result<ExtentId> import_fd(int, size_t) override { return no_virtual_memory(); }
  Result<FabricHandle> export_fabric(ExtentId) override { return no_virtual_memory(); }
  Result<ExtentId> import_fabric(const FabricHandle&, size_t) override {
    return no_virtual_memory();
  }

 private:
  static Status no_virtual_memory() {
    return Status::unsupported("this device has no virtual memory");
  }

  DeviceProperties properties_;
};

}  // namespace ashlar::contract
