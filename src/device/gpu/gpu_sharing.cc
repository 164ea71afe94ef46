// SPDX-License-Identifier: Apache-2.0
//
// What crosses processes and devices: exported and imported extents, shared allocations, peers.
#include <fcntl.h>

#include "base/text.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {
namespace {

// Whatever number the driver has for a handle that is none, it is the caller's mistake. Memory that
// is not there and a device that is lost are not.
Status not_a_handle(Status failed) {
  if (failed.is(StatusKind::kOutOfMemory) || failed.is(StatusKind::kDeviceLost)) return failed;
  return Status::invalid_argument(text("not a handle of exported memory: ", failed.message()));
}

}  // namespace

// --- extents ------------------------------------------------------------------------------------

Result<UniqueFd> GpuDevice::export_fd(ExtentId id) {
  return call([&]() -> Result<UniqueFd> {
    const Result<Extent> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    if (!extent->exportable.export_fd) {
      return Status::invalid_argument(text("extent ", id, " was not created with export_fd"));
    }
    if (Status own = refuse_imported(id, *extent); !own.ok()) return own;
    return exported_fd(extent->handle);
  });
}

Result<UniqueFd> GpuDevice::exported_fd(Handle shared) {
  int fd = -1;
  if (Status made = done(driver().export_fd(shared, fd)); !made.ok()) return made;
  UniqueFd exported(fd);
  // Drivers leave it open for programs that this one starts.
  if (const int flags = ::fcntl(fd, F_GETFD); flags >= 0) {
    (void)::fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  }
  return exported;
}

Result<ExtentId> GpuDevice::import_fd(int fd, size_t bytes) {
  return call([&]() -> Result<ExtentId> {
    if (!properties_.can_export_fd) return Status::unsupported("no file descriptors here");
    if (Status sized = check_granules("import", bytes); !sized.ok()) return sized;
    if (::fcntl(fd, F_GETFD) < 0)
      return Status::invalid_argument(text(fd, " is no open file descriptor"));
    Extent extent{0, bytes, {.export_fd = true}, true};
    Status imported = done(driver().import_fd(fd, extent.handle));
    if (!imported.ok()) return not_a_handle(std::move(imported));
    return adopt(extent);
  });
}

Result<FabricHandle> GpuDevice::export_fabric(ExtentId id) {
  return call([&]() -> Result<FabricHandle> {
    const Result<Extent> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    if (!extent->exportable.export_fabric) {
      return Status::invalid_argument(text("extent ", id, " was not created with export_fabric"));
    }
    if (Status own = refuse_imported(id, *extent); !own.ok()) return own;
    FabricHandle handle{};
    if (Status made = done(driver().export_fabric(extent->handle, handle)); !made.ok()) return made;
    return handle;
  });
}

Result<ExtentId> GpuDevice::import_fabric(const FabricHandle& handle, size_t bytes) {
  return call([&]() -> Result<ExtentId> {
    if (!properties_.can_export_fabric) return Status::unsupported("no fabric handles here");
    if (Status sized = check_granules("import", bytes); !sized.ok()) return sized;
    Extent extent{0, bytes, {.export_fabric = true}, true};
    if (Status imported = done(driver().import_fabric(handle, extent.handle)); !imported.ok()) {
      return imported;
    }
    return adopt(extent);
  });
}

Status GpuDevice::refuse_imported(ExtentId id, const Extent& extent) const {
  if (!extent.is_imported || properties_.can_export_imported) return {};
  return Status::unsupported(text("extent ", id, " was imported: only its exporter can export it"));
}

Result<ExtentId> GpuDevice::adopt(Extent imported) {
  if (has_size(imported.handle, imported.bytes)) return keep_extent(imported);
  (void)driver().release(imported.handle);
  return Status::invalid_argument(text("the extent does not have ", imported.bytes, " B"));
}

// No driver tells the size of an imported extent, but it maps only the whole of it.
bool GpuDevice::has_size(Handle extent, size_t bytes) {
  DeviceAddress at;
  if (!driver().reserve({bytes, 0, {}}, at).ok()) return false;
  const AddressRange range{at, bytes};
  const bool fits = driver().map(range, extent).ok();
  if (fits) (void)driver().unmap(range);
  (void)driver().free_addresses(range);
  return fits;
}

// --- shared allocations -------------------------------------------------------------------------

Result<AllocationHandle> GpuDevice::share_allocation(DeviceAddress address) {
  return call([&]() -> Result<AllocationHandle> {
    if (!properties_.can_share_allocations) return Status::unsupported("no shared allocations");
    const auto found = common_.places.find(PlaceKind::kAllocated, address, index());
    if (!found.ok()) return found.status();
    AllocationHandle handle{};
    if (Status shared = done(driver().share(address, handle)); !shared.ok()) return shared;
    return handle;
  });
}

Result<DeviceAddress> GpuDevice::open_allocation(const AllocationHandle& handle) {
  return call([&]() -> Result<DeviceAddress> {
    if (!properties_.can_share_allocations) return Status::unsupported("no shared allocations");
    DeviceAddress at;
    const Outcome opened = driver().open_shared(handle, at);
    if (opened.code == kInvalidContext) {
      return Status::unsupported("only processes other than the exporter can open its memory");
    }
    if (!opened.ok()) return not_a_handle(done(opened));
    Location found;
    Status located = done(driver().locate(at, found));
    if (located.ok() && !found.range.contains(at)) {
      located = Status::device_fault(opened.call, 0, "the opened memory is nowhere");
    }
    if (!located.ok()) {
      (void)driver().close_shared(at);
      return located;
    }
    common_.places.add(PlaceKind::kOpened, {at, found.range.end() - at}, index());
    return at;
  });
}

Status GpuDevice::close_allocation(DeviceAddress address) {
  return call([&]() -> Status {
    const auto range = common_.places.remove(PlaceKind::kOpened, address, index());
    if (!range.ok()) return range.status();
    Status closed = done(driver().close_shared(address));
    if (!closed.ok()) common_.places.add(PlaceKind::kOpened, *range, index());
    return closed;
  });
}

// --- peers --------------------------------------------------------------------------------------

Status GpuDevice::check_peer(DeviceIndex peer) const {
  if (peer.value() < common_.devices.size()) return {};
  return Status::invalid_argument(
      text("there is no device ", peer, " (there are ", common_.devices.size(), ")"));
}

Result<bool> GpuDevice::can_access_peer(DeviceIndex peer) {
  return call([&]() -> Result<bool> {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (peer == index()) return false;
    bool can = false;
    const Outcome asked = driver().can_access_peer(ordinal(), static_cast<int>(peer.value()), can);
    if (Status answered = done(asked); !answered.ok()) return answered;
    return can;
  });
}

Status GpuDevice::enable_peer_access(DeviceIndex peer) {
  return call([&]() -> Status {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (peer == index()) return Status::unsupported("a device is not its own peer");
    if (Status usable = common_.devices[peer.value()]->ready(); !usable.ok()) return usable;
    const int other = static_cast<int>(peer.value());
    bool can = false;
    if (Status asked = done(driver().can_access_peer(ordinal(), other, can)); !asked.ok()) {
      return asked;
    }
    if (!can) return Status::unsupported(text("device ", index(), " cannot reach device ", peer));
    const Outcome enabled = driver().enable_peer_access(other);
    if (!enabled.ok() && enabled.code != kPeerAccessAlreadyEnabled) return done(enabled);
    common_.places.set_peer_access(index(), peer, true);
    return {};
  });
}

Status GpuDevice::disable_peer_access(DeviceIndex peer) {
  return call([&]() -> Status {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (peer == index()) return Status::unsupported("a device is not its own peer");
    if (Status usable = common_.devices[peer.value()]->ready(); !usable.ok()) return usable;
    const Outcome disabled = driver().disable_peer_access(static_cast<int>(peer.value()));
    if (!disabled.ok() && disabled.code != kPeerAccessNotEnabled) return done(disabled);
    common_.places.set_peer_access(index(), peer, false);
    return {};
  });
}

}  // namespace ashlar::gpu
