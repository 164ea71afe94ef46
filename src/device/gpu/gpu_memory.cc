// SPDX-License-Identifier: Apache-2.0
//
// Implements the parts of GpuDevice for virtual memory, sharing between processes, and peers. The
// file is long because these parts use the same checks.
#include <fcntl.h>

#include <algorithm>
#include <bit>

#include "base/align.h"
#include "base/text.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {
namespace {

Status virtual_memory_error() { return Status::unsupported("this device has no virtual memory"); }

// Converts the status of a failed import. Drivers report an invalid descriptor or allocation handle
// with various errors, so all except kOutOfMemory and kDeviceLost become kInvalidArgument.
Status invalid_handle_status(Status failed) {
  if (failed.is(StatusKind::kOutOfMemory) || failed.is(StatusKind::kDeviceLost)) return failed;
  return Status::invalid_argument(text("not a handle of exported memory: ", failed.message()));
}

}  // namespace

Status GpuDevice::check_granularity(const char* action, size_t bytes) const {
  if (!properties_.has_virtual_memory) return virtual_memory_error();
  const size_t granularity = properties_.granularity_bytes;
  if (bytes != 0 && is_aligned(bytes, granularity)) return {};
  return Status::invalid_argument(text("cannot ", action, " ", bytes,
                                       " B: expected a positive multiple of the granularity, ",
                                       granularity));
}

// --- addresses

Result<DeviceAddress> GpuDevice::reserve(size_t bytes, const ReserveOptions& options) {
  return call([&]() -> Result<DeviceAddress> {
    if (Status sized = check_granularity("reserve", bytes); !sized.ok()) return sized;
    if (options.alignment_bytes != 0 && !std::has_single_bit(options.alignment_bytes)) {
      return Status::invalid_argument(
          text("cannot align to ", options.alignment_bytes, ": expected a power of two"));
    }
    const size_t alignment = std::max(options.alignment_bytes, properties_.granularity_bytes);
    Result<AddressRange> reserved = reserve_range(bytes, alignment, options.hint);
    if (!reserved.ok()) return reserved.status();
    const DeviceAddress begin(align_up(reserved->begin.value(), alignment));
    ScopeGuard undo([&] { (void)driver().free_addresses(*reserved); });
    backend_.addresses.add({.range = {begin, bytes}, .driver_range = *reserved, .owner = index()});
    undo.dismiss();
    return begin;
  });
}

// Reserves addresses that contain an aligned range of `bytes` bytes. Retries without the hint if
// the hint is rejected, and with more bytes if an alignment above the granularity is not honoured.
Result<AddressRange> GpuDevice::reserve_range(size_t bytes, size_t alignment_bytes,
                                              DeviceAddress hint) {
  DeviceAddress at;
  const bool use_hint = !hint.is_null() && is_aligned(hint.value(), alignment_bytes) &&
                        !AddressRange{hint, bytes}.overflows();
  DriverResult reserved;
  if (use_hint) reserved = driver().reserve({bytes, alignment_bytes, hint}, at);
  if (!use_hint || !reserved.ok()) {
    reserved = driver().reserve({bytes, alignment_bytes, {}}, at);
  }
  if (reserved.ok() && is_aligned(at.value(), alignment_bytes)) return AddressRange{at, bytes};
  if (reserved.ok()) (void)driver().free_addresses({at, bytes});
  const size_t larger_bytes = bytes + alignment_bytes;
  if (larger_bytes > bytes && alignment_bytes > properties_.granularity_bytes) {
    reserved = driver().reserve({larger_bytes, 0, {}}, at);
    if (reserved.ok()) return AddressRange{at, larger_bytes};
  }
  // Drivers return different errors for ranges that are too large; kOutOfMemory replaces them all.
  Status failed = to_status(reserved);
  if (!failed.is(StatusKind::kInvalidArgument) && !failed.is(StatusKind::kUnsupported))
    return failed;
  return Status::out_of_memory(text("no ", bytes, " B of addresses: ", failed.message()));
}

Status GpuDevice::free_addresses(AddressRange range) {
  return call([&]() -> Status {
    if (!properties_.has_virtual_memory) return virtual_memory_error();
    MutexLock lock(mapping_mutex_);
    const Result<AddressRegistry::Reservation> found =
        backend_.addresses.find_empty_reservation(range, index());
    if (!found.ok()) return found.status();
    // Removed before the driver frees the addresses, because another thread may then reuse them.
    backend_.addresses.remove_reservation(range.begin);
    Status freed = to_status(driver().free_addresses(found->driver_range));
    if (!freed.ok()) backend_.addresses.add(*found);
    return freed;
  });
}

// --- extents

Result<ExtentId> GpuDevice::create(size_t bytes, const CreateOptions& options) {
  return call([&]() -> Result<ExtentId> {
    if (Status sized = check_granularity("create", bytes); !sized.ok()) return sized;
    if (options.can_export_fd && !properties_.can_export_fd) {
      return Status::unsupported("this device exports no file descriptors");
    }
    if (options.can_export_fabric && !properties_.can_export_fabric) {
      return Status::unsupported("this device exports no fabric handles");
    }
    if (Status fits = check_capacity(bytes); !fits.ok()) return fits;
    ExtentRecord extent{0, bytes, options, false};
    const Driver::CreateRequest request{ordinal(), bytes, options.can_export_fd,
                                        options.can_export_fabric, info_.has_rdma};
    if (Status created = to_status(driver().create(request, extent.handle)); !created.ok())
      return created;
    ScopeGuard undo([&] { (void)driver().release(extent.handle); });
    const ExtentId id = add_extent(extent);
    undo.dismiss();
    return id;
  });
}

Status GpuDevice::release(ExtentId id) {
  return call([&]() -> Status {
    const Result<ExtentRecord> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    {
      MutexLock lock(mutex_);
      if (extents_.erase(id) == 0) {
        return Status::invalid_argument(
            text("extent ", id, " is being released by another thread"));
      }
    }
    Status released = to_status(driver().release(extent->handle));
    if (!released.ok()) {
      MutexLock lock(mutex_);
      extents_.emplace(id, *extent);
    }
    return released;
  });
}

Result<GpuDevice::ExtentRecord> GpuDevice::find_extent(ExtentId id) const {
  MutexLock lock(mutex_);
  const auto found = extents_.find(id);
  if (found == extents_.end()) {
    return Status::invalid_argument(text("extent ", id, " is not an extent of device ", index()));
  }
  return found->second;
}

ExtentId GpuDevice::add_extent(const ExtentRecord& extent) {
  const ExtentId id(backend_.last_extent.fetch_add(1, std::memory_order_relaxed) + 1);
  MutexLock lock(mutex_);
  extents_.emplace(id, extent);
  return id;
}

// --- mappings

Status GpuDevice::map(DeviceAddress at, ExtentId id) {
  return call([&]() -> Status {
    if (!properties_.has_virtual_memory) return virtual_memory_error();
    const Result<ExtentRecord> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    const AddressRange range{at, extent->bytes};
    if (!is_aligned(at.value(), properties_.granularity_bytes)) {
      return Status::invalid_argument(text("cannot map at ", at,
                                           ": expected a multiple of the granularity, ",
                                           properties_.granularity_bytes));
    }
    MutexLock lock(mapping_mutex_);
    if (Status free = backend_.addresses.check_free(range, index()); !free.ok()) return free;
    if (!properties_.can_alias && backend_.addresses.is_mapped(id)) {
      return Status::invalid_argument(
          text("extent ", id, " is mapped already, and this device cannot alias"));
    }
    if (Status mapped = to_status(driver().map(range, extent->handle)); !mapped.ok()) return mapped;
    ScopeGuard undo([&] { (void)driver().unmap(range); });
    backend_.addresses.add_mapping(range, id, index());
    undo.dismiss();
    return {};
  });
}

Status GpuDevice::set_access(AddressRange range, DeviceIndex accessor, Access access) {
  return call([&]() -> Status {
    if (!properties_.has_virtual_memory) return virtual_memory_error();
    if (Status known = check_peer(accessor); !known.ok()) return known;
    MutexLock lock(mapping_mutex_);
    Status whole = backend_.addresses.check_whole_extents(range, index());
    if (!whole.ok()) return whole;
    const int accessor_ordinal = static_cast<int>(accessor.value());
    if (accessor != index()) {
      bool can = false;
      const DriverResult result = driver().can_access_peer(accessor_ordinal, ordinal(), can);
      if (Status status = to_status(result); !status.ok()) return status;
      if (!can) {
        return Status::unsupported(text("device ", accessor, " cannot reach device ", index()));
      }
    }
    Status set = to_status(driver().set_access(range, accessor_ordinal, access));
    // If kRead is rejected, the driver does not support kRead, because the range was checked above.
    if (set.is(StatusKind::kInvalidArgument) && access == Access::kRead) {
      return Status::unsupported(set.message());
    }
    if (set.ok()) backend_.addresses.set_access(range, accessor, access);
    return set;
  });
}

Status GpuDevice::unmap(AddressRange range) {
  return call([&]() -> Status {
    if (!properties_.has_virtual_memory) return virtual_memory_error();
    MutexLock lock(mapping_mutex_);
    Status whole = backend_.addresses.check_whole_extents(range, index());
    if (!whole.ok()) return whole;
    Status unmapped = to_status(driver().unmap(range));
    if (unmapped.ok()) backend_.addresses.remove_mappings(range);
    return unmapped;
  });
}

// --- exported and imported extents

Result<UniqueFd> GpuDevice::export_fd(ExtentId id) {
  return call([&]() -> Result<UniqueFd> {
    const Result<ExtentRecord> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    if (!extent->export_options.can_export_fd) {
      return Status::invalid_argument(text("extent ", id, " lacks can_export_fd"));
    }
    if (Status exportable = check_exportable(id, *extent); !exportable.ok()) return exportable;
    return export_handle_as_fd(extent->handle);
  });
}

Result<UniqueFd> GpuDevice::export_handle_as_fd(Handle shared) {
  int fd = -1;
  if (Status created = to_status(driver().export_fd(shared, fd)); !created.ok()) return created;
  UniqueFd exported(fd);
  // Drivers do not set close-on-exec on descriptors.
  if (const int flags = ::fcntl(fd, F_GETFD); flags >= 0) {
    (void)::fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  }
  return exported;
}

Result<ExtentId> GpuDevice::import_fd(int fd, size_t bytes) {
  return call([&]() -> Result<ExtentId> {
    if (!properties_.can_export_fd) return Status::unsupported("no descriptors on this device");
    if (Status sized = check_granularity("import", bytes); !sized.ok()) return sized;
    if (::fcntl(fd, F_GETFD) < 0)
      return Status::invalid_argument(text(fd, " is not an open file descriptor"));
    ExtentRecord extent{0, bytes, {.can_export_fd = true}, true};
    Status imported = to_status(driver().import_fd(fd, extent.handle));
    if (!imported.ok()) return invalid_handle_status(std::move(imported));
    return add_imported(extent);
  });
}

Result<FabricHandle> GpuDevice::export_fabric(ExtentId id) {
  return call([&]() -> Result<FabricHandle> {
    const Result<ExtentRecord> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    if (!extent->export_options.can_export_fabric) {
      return Status::invalid_argument(text("extent ", id, " lacks can_export_fabric"));
    }
    if (Status exportable = check_exportable(id, *extent); !exportable.ok()) return exportable;
    FabricHandle handle{};
    if (Status created = to_status(driver().export_fabric(extent->handle, handle)); !created.ok())
      return created;
    return handle;
  });
}

Result<ExtentId> GpuDevice::import_fabric(const FabricHandle& handle, size_t bytes) {
  return call([&]() -> Result<ExtentId> {
    if (!properties_.can_export_fabric) return Status::unsupported("no fabric on this device");
    if (Status sized = check_granularity("import", bytes); !sized.ok()) return sized;
    ExtentRecord extent{0, bytes, {.can_export_fabric = true}, true};
    if (Status imported = to_status(driver().import_fabric(handle, extent.handle));
        !imported.ok()) {
      return imported;
    }
    return add_imported(extent);
  });
}

Status GpuDevice::check_exportable(ExtentId id, const ExtentRecord& extent) const {
  if (!extent.is_imported || properties_.can_export_imported) return {};
  return Status::unsupported(text("extent ", id, " was imported: only its exporter can export it"));
}

Result<ExtentId> GpuDevice::add_imported(ExtentRecord imported) {
  Status checked = check_maps_with_size(imported.handle, imported.bytes);
  if (checked.ok()) return add_extent(imported);
  (void)driver().release(imported.handle);
  return checked;
}

// Returns kInvalidArgument if the extent has another size. Drivers do not report the size of an
// imported extent, but map an extent only as a whole. An extent of 2^47 bytes would fill the
// address space of a process.
Status GpuDevice::check_maps_with_size(Handle extent, size_t bytes) {
  const Status other_size =
      Status::invalid_argument(text("the extent does not have ", bytes, " B"));
  if (bytes >= size_t{1} << 47) return other_size;
  DeviceAddress at;
  Status reserved = to_status(driver().reserve({bytes, 0, {}}, at));
  if (!reserved.ok()) return reserved;
  const AddressRange range{at, bytes};
  Status mapped = to_status(driver().map(range, extent));
  if (mapped.ok()) (void)driver().unmap(range);
  (void)driver().free_addresses(range);
  // CUDA reports an attempt to map part of an extent as unsupported.
  const bool has_other_size =
      mapped.is(StatusKind::kInvalidArgument) || mapped.is(StatusKind::kUnsupported);
  return has_other_size ? other_size : mapped;
}

// --- shared allocations

Result<AllocationHandle> GpuDevice::share_allocation(DeviceAddress address) {
  return call([&]() -> Result<AllocationHandle> {
    if (!properties_.can_share_allocations) return Status::unsupported("no shared allocations");
    const auto found = backend_.addresses.find(RangeKind::kAllocated, address, index());
    if (!found.ok()) return found.status();
    AllocationHandle handle{};
    if (Status shared = to_status(driver().get_ipc_handle(address, handle)); !shared.ok())
      return shared;
    return handle;
  });
}

Result<DeviceAddress> GpuDevice::open_allocation(const AllocationHandle& handle) {
  return call([&]() -> Result<DeviceAddress> {
    if (!properties_.can_share_allocations) return Status::unsupported("no shared allocations");
    DeviceAddress at;
    const DriverResult opened = driver().open_ipc_handle(handle, at);
    if (opened.code == kInvalidContext) {
      return Status::unsupported("only processes other than the exporter can open its memory");
    }
    if (!opened.ok()) return invalid_handle_status(to_status(opened));
    AddressInfo found;
    Status located = to_status(driver().query_address(at, found));
    if (located.ok() && !found.range.contains(at)) {
      located = Status::device_fault(opened.call, 0, "the opened range is unknown to the driver");
    }
    if (!located.ok()) {
      (void)driver().close_ipc_handle(at);
      return located;
    }
    backend_.addresses.add(RangeKind::kOpened, {at, found.range.end() - at}, index());
    return at;
  });
}

Status GpuDevice::close_allocation(DeviceAddress address) {
  return call([&]() -> Status {
    const auto range = backend_.addresses.remove(RangeKind::kOpened, address, index());
    if (!range.ok()) return range.status();
    Status closed = to_status(driver().close_ipc_handle(address));
    if (!closed.ok()) backend_.addresses.add(RangeKind::kOpened, *range, index());
    return closed;
  });
}

// --- peers

Status GpuDevice::check_peer(DeviceIndex peer) const {
  if (peer.value() < backend_.devices.size()) return {};
  return Status::invalid_argument(
      text("there is no device ", peer, " (there are ", backend_.devices.size(), ")"));
}

Result<bool> GpuDevice::can_access_peer(DeviceIndex peer) {
  return call([&]() -> Result<bool> {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (peer == index()) return false;
    bool can = false;
    const DriverResult result =
        driver().can_access_peer(ordinal(), static_cast<int>(peer.value()), can);
    if (Status status = to_status(result); !status.ok()) return status;
    return can;
  });
}

Status GpuDevice::enable_peer_access(DeviceIndex peer) {
  return call([&]() -> Status {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (peer == index()) return Status::unsupported("a device is not its own peer");
    if (Status usable = backend_.devices[peer.value()]->ensure_open(); !usable.ok()) return usable;
    const int other = static_cast<int>(peer.value());
    bool can = false;
    if (Status status = to_status(driver().can_access_peer(ordinal(), other, can)); !status.ok()) {
      return status;
    }
    if (!can) return Status::unsupported(text("device ", index(), " cannot reach device ", peer));
    const DriverResult enabled = driver().enable_peer_access(other);
    if (!enabled.ok() && enabled.code != kPeerAccessAlreadyEnabled) return to_status(enabled);
    backend_.addresses.set_peer_access(index(), peer, true);
    return {};
  });
}

Status GpuDevice::disable_peer_access(DeviceIndex peer) {
  return call([&]() -> Status {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (peer == index()) return Status::unsupported("a device is not its own peer");
    if (Status usable = backend_.devices[peer.value()]->ensure_open(); !usable.ok()) return usable;
    const DriverResult disabled = driver().disable_peer_access(static_cast<int>(peer.value()));
    if (!disabled.ok() && disabled.code != kPeerAccessNotEnabled) return to_status(disabled);
    backend_.addresses.set_peer_access(index(), peer, false);
    return {};
  });
}

}  // namespace ashlar::gpu
