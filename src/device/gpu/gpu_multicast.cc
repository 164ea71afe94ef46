// SPDX-License-Identifier: Apache-2.0
//
// Multicast objects: created or imported, joined, bound, mapped; and all of it undone. Who does
// what when, so that nobody waits in the driver for ever, is the caller's part
// (symm/rendezvous/multicast_setup.cc).
#include "base/text.h"
#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {

// A question, and so no failure that a thread would be told of.
Status GpuDevice::multicast_availability() const {
  if (Status usable = ready(); !usable.ok()) return usable;
  if (!facts_.no_multicast.empty()) return Status::unsupported(facts_.no_multicast);
  if (properties_.has_virtual_memory) return {};
  return Status::unsupported("this device has no virtual memory, which multicast needs");
}

// It does not depend on what exactly is wanted, as far as is known; two devices are the fewest, and
// objects travel by one way, so that a driver is not asked for both at once.
Result<size_t> GpuDevice::multicast_granularity() {
  return call([&]() -> Result<size_t> {
    Driver::Multicast wanted;
    wanted.device_count = 2;
    wanted.bytes = properties_.granularity_bytes;
    wanted.export_fd = properties_.can_export_fd;
    wanted.export_fabric = properties_.can_export_fabric && !wanted.export_fd;
    size_t bytes = 0;
    const Outcome asked = driver().multicast_granularity(wanted, bytes);
    if (Status answered = done(asked); !answered.ok()) return answered;
    return bytes;
  });
}

Result<Handle> GpuDevice::create_multicast(const Driver::Multicast& wanted) {
  return call([&]() -> Result<Handle> {
    Handle object = 0;
    if (Status made = done(driver().create_multicast(wanted, object)); !made.ok()) return made;
    return object;
  });
}

Result<UniqueFd> GpuDevice::export_multicast_fd(Handle object) {
  return call([&] { return exported_fd(object); });
}

Result<FabricHandle> GpuDevice::export_multicast_fabric(Handle object) {
  return call([&]() -> Result<FabricHandle> {
    FabricHandle handle{};
    if (Status made = done(driver().export_fabric(object, handle)); !made.ok()) return made;
    return handle;
  });
}

Result<Handle> GpuDevice::import_multicast_fd(int fd) {
  return call([&]() -> Result<Handle> {
    Handle object = 0;
    if (Status imported = done(driver().import_fd(fd, object)); !imported.ok()) return imported;
    return object;
  });
}

Result<Handle> GpuDevice::import_multicast_fabric(const FabricHandle& handle) {
  return call([&]() -> Result<Handle> {
    Handle object = 0;
    const Outcome imported = driver().import_fabric(handle, object);
    if (Status got = done(imported); !got.ok()) return got;
    return object;
  });
}

Status GpuDevice::add_to_multicast(Handle object) {
  return call([&] { return done(driver().add_to_multicast(object, ordinal())); });
}

Status GpuDevice::bind_multicast(Handle object, ExtentId id) {
  return call([&]() -> Status {
    const Result<Extent> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    return done(driver().bind_multicast(object, extent->handle, extent->bytes));
  });
}

Status GpuDevice::unbind_multicast(Handle object, size_t bytes) {
  return call([&] { return done(driver().unbind_multicast(object, ordinal(), bytes)); });
}

// What is mapped is no extent of ours, so that no copy or fill goes there; but the addresses are
// taken.
Result<AddressRange> GpuDevice::map_multicast(Handle object, size_t bytes) {
  const Result<size_t> granularity = multicast_granularity();
  if (!granularity.ok()) return granularity.status();
  const Result<DeviceAddress> at = reserve(bytes, {.alignment_bytes = *granularity, .hint = {}});
  if (!at.ok()) return at.status();
  const AddressRange range{*at, bytes};
  const Status mapped = call([&]() -> Status {
    if (Status done_so = done(driver().map(range, object)); !done_so.ok()) return done_so;
    Status accessible = done(driver().set_access(range, ordinal(), Access::kReadWrite));
    if (!accessible.ok()) (void)driver().unmap(range);
    return accessible;
  });
  if (mapped.ok()) return range;
  (void)free_addresses(range).ok();
  return mapped;
}

Status GpuDevice::unmap_multicast(AddressRange range) {
  Status unmapped = call([&] { return done(driver().unmap(range)); });
  if (!unmapped.ok()) return unmapped;
  return free_addresses(range);
}

Status GpuDevice::release_multicast(Handle object) {
  return call([&] { return done(driver().release(object)); });
}

}  // namespace ashlar::gpu
