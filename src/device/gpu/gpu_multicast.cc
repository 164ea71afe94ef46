// SPDX-License-Identifier: Apache-2.0
//
// Makes the driver calls for multicast objects in the context of the device.
#include "device/gpu/gpu_multicast.h"

#include "base/text.h"

namespace ashlar::gpu {

// Unlike the functions that call the driver, records no last error, because missing multicast is
// not a failure.
Status GpuMulticast::availability() const {
  if (Status usable = device_.ensure_open(); !usable.ok()) return usable;
  if (!device_.info_.multicast_unavailable_reason.empty())
    return Status::unsupported(device_.info_.multicast_unavailable_reason);
  if (device_.properties_.has_virtual_memory) return {};
  return Status::unsupported("this device has no virtual memory, which multicast needs");
}

// The granularity does not seem to depend on the request. It is queried for the smallest object and
// at most one handle type, because some drivers reject a request with both handle types.
Result<size_t> GpuMulticast::granularity() {
  return device_.call([&]() -> Result<size_t> {
    Driver::MulticastRequest request;
    request.device_count = 2;
    request.bytes = device_.properties_.granularity_bytes;
    request.can_export_fd = device_.properties_.can_export_fd;
    request.can_export_fabric = device_.properties_.can_export_fabric && !request.can_export_fd;
    size_t bytes = 0;
    const DriverResult queried = device_.driver().multicast_granularity(request, bytes);
    if (Status status = device_.to_status(queried); !status.ok()) return status;
    return bytes;
  });
}

Result<Handle> GpuMulticast::create(const Driver::MulticastRequest& request) {
  return device_.call([&]() -> Result<Handle> {
    Handle object = 0;
    if (Status created = device_.to_status(device_.driver().create_multicast(request, object));
        !created.ok())
      return created;
    return object;
  });
}

Result<UniqueFd> GpuMulticast::export_fd(Handle object) {
  return device_.call([&] { return device_.export_handle_as_fd(object); });
}

Result<FabricHandle> GpuMulticast::export_fabric(Handle object) {
  return device_.call([&]() -> Result<FabricHandle> {
    FabricHandle handle{};
    if (Status created = device_.to_status(device_.driver().export_fabric(object, handle));
        !created.ok())
      return created;
    return handle;
  });
}

Result<Handle> GpuMulticast::import_fd(int fd) {
  return device_.call([&]() -> Result<Handle> {
    Handle object = 0;
    if (Status imported = device_.to_status(device_.driver().import_fd(fd, object)); !imported.ok())
      return imported;
    return object;
  });
}

Result<Handle> GpuMulticast::import_fabric(const FabricHandle& handle) {
  return device_.call([&]() -> Result<Handle> {
    Handle object = 0;
    const DriverResult imported = device_.driver().import_fabric(handle, object);
    if (Status got = device_.to_status(imported); !got.ok()) return got;
    return object;
  });
}

Status GpuMulticast::add_device(Handle object) {
  return device_.call([&] {
    return device_.to_status(device_.driver().add_to_multicast(object, device_.ordinal()));
  });
}

Status GpuMulticast::bind(Handle object, ExtentId id) {
  return device_.call([&]() -> Status {
    const Result<GpuDevice::ExtentRecord> extent = device_.find_extent(id);
    if (!extent.ok()) return extent.status();
    return device_.to_status(
        device_.driver().bind_multicast(object, extent->handle, extent->bytes));
  });
}

Status GpuMulticast::unbind(Handle object, size_t bytes) {
  return device_.call([&] {
    return device_.to_status(device_.driver().unbind_multicast(object, device_.ordinal(), bytes));
  });
}

// Maps an object. The mapping is not added to the address registry, so that copies and fills reject
// the addresses.
Result<AddressRange> GpuMulticast::map(Handle object, size_t bytes) {
  const Result<size_t> alignment = granularity();
  if (!alignment.ok()) return alignment.status();
  const Result<DeviceAddress> at =
      device_.reserve(bytes, {.alignment_bytes = *alignment, .hint = {}});
  if (!at.ok()) return at.status();
  const AddressRange range{*at, bytes};
  const Status mapped = device_.call([&]() -> Status {
    if (Status done = device_.to_status(device_.driver().map(range, object)); !done.ok())
      return done;
    Status accessible = device_.to_status(
        device_.driver().set_access(range, device_.ordinal(), Access::kReadWrite));
    if (!accessible.ok()) (void)device_.driver().unmap(range);
    return accessible;
  });
  if (mapped.ok()) return range;
  (void)device_.free_addresses(range).ok();
  return mapped;
}

Status GpuMulticast::unmap(AddressRange range) {
  Status unmapped = device_.call([&] { return device_.to_status(device_.driver().unmap(range)); });
  if (!unmapped.ok()) return unmapped;
  return device_.free_addresses(range);
}

Status GpuMulticast::release(Handle object) {
  return device_.call([&] { return device_.to_status(device_.driver().release(object)); });
}

}  // namespace ashlar::gpu
