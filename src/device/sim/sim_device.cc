// SPDX-License-Identifier: Apache-2.0
//
// The simulated device's memory: plain, virtual, shared, peers', pinned, pooled.
#include "device/sim/sim_device.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/align.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar::sim {
namespace {

// Plain allocations are rounded to this, in place of the driver's own packing of small ones.
constexpr size_t kAllocationGranularity = 64 * kKiB;

}  // namespace

SimDevice::SimDevice(Machine::Parts& parts, DeviceProperties properties, PhysicalMemory& memory)
    : parts_(parts),
      properties_(std::move(properties)),
      memory_(memory),
      gate_(properties_.index, parts.faults),
      pool_(properties_.index, memory, parts.addresses) {}

// --- identity -----------------------------------------------------------------------------------

Result<MemoryStats> SimDevice::memory_stats() {
  return call(DeviceCall::kMemoryStats, [&](CallSize&) -> Result<MemoryStats> {
    const size_t total = memory_.capacity_bytes();
    return MemoryStats{total - memory_.used_bytes(), total};
  });
}

Result<std::vector<ProcessUse>> SimDevice::processes() {
  return call(DeviceCall::kProcesses, [&](CallSize&) -> Result<std::vector<ProcessUse>> {
    return std::vector<ProcessUse>{{::getpid(), memory_.used_bytes()}};
  });
}

Status SimDevice::last_error() {
  return gate_.is_lost() ? gate_.lost_status() : last_error_.peek();
}

Status SimDevice::take_last_error() {
  const Status taken = last_error_.take();
  return gate_.is_lost() ? gate_.lost_status() : taken;
}

// --- plain memory -------------------------------------------------------------------------------

Result<DeviceAddress> SimDevice::allocate(size_t bytes) {
  return call(DeviceCall::kAllocate, [&](CallSize& size) -> Result<DeviceAddress> {
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
    if (Status ok = parts_.captures.allow_unsafe("allocate"); !ok.ok()) return ok;
    const auto rounded = try_align_up(bytes, kAllocationGranularity);
    if (!rounded) return Status::out_of_memory(text("no device has ", bytes, " B"));
    size.bytes = *rounded;
    Result<std::shared_ptr<Extent>> extent = memory_.create_extent(*rounded, {});
    if (!extent.ok()) return extent.status();
    return parts_.addresses.place(*std::move(extent), index(), MappingKind::kAllocation);
  });
}

Status SimDevice::free(DeviceAddress address) {
  return call(DeviceCall::kFree, [&](CallSize& size) -> Status {
    const auto known = parts_.addresses.placed(address, index(), MappingKind::kAllocation);
    if (!known.ok()) return known.status();
    if (Status ok = parts_.captures.allow_unsafe("free"); !ok.ok()) return ok;
    Result<size_t> freed = parts_.addresses.remove(address, index(), MappingKind::kAllocation);
    if (freed.ok()) size.bytes = *freed;
    return freed.status();
  });
}

Result<AddressDescription> SimDevice::describe(DeviceAddress address) {
  return call(DeviceCall::kDescribe, [&](CallSize&) -> Result<AddressDescription> {
    const AddressDescription device_memory = parts_.addresses.describe(address);
    if (device_memory.kind != MemoryKind::kUnknown) return device_memory;
    return parts_.host_memory.describe(address);
  });
}

// --- virtual memory -----------------------------------------------------------------------------

Result<DeviceAddress> SimDevice::reserve(size_t bytes, const ReserveOptions& options) {
  return call(DeviceCall::kReserve, [&](CallSize& size) {
    size.bytes = bytes;
    return parts_.addresses.reserve(bytes, options, index());
  });
}

Status SimDevice::free_addresses(AddressRange range) {
  return call(DeviceCall::kFreeAddresses, [&](CallSize& size) {
    size.bytes = range.bytes;
    return parts_.addresses.free_addresses(range, index());
  });
}

Result<ExtentId> SimDevice::create(size_t bytes, const CreateOptions& options) {
  return call(DeviceCall::kCreate, [&](CallSize& size) -> Result<ExtentId> {
    size.bytes = bytes;
    if (bytes == 0 || !is_aligned(bytes, properties_.granularity_bytes)) {
      return Status::invalid_argument(text("cannot create ", bytes,
                                           " B: expected a positive multiple of the ",
                                           "granularity, ", properties_.granularity_bytes));
    }
    if ((options.export_fd && !properties_.can_export_fd) ||
        (options.export_fabric && !properties_.can_export_fabric)) {
      return Status::unsupported("in bookkeeping, there are no bytes to export");
    }
    Result<std::shared_ptr<Extent>> extent = memory_.create_extent(bytes, options);
    if (!extent.ok()) return extent.status();
    return keep_extent(*std::move(extent));
  });
}

Status SimDevice::release(ExtentId id) {
  return call(DeviceCall::kRelease, [&](CallSize& size) -> Status {
    // Let go after unlocking: it may punch a hole.
    std::shared_ptr<Extent> extent;
    MutexLock lock(extents_mutex_);
    const auto found = extents_.find(id);
    if (found == extents_.end()) {
      return Status::invalid_argument(text("extent ", id, " is not an extent of device ", index()));
    }
    extent = std::move(found->second);
    extents_.erase(found);
    size.bytes = extent->bytes();
    return {};
  });
}

Status SimDevice::map(DeviceAddress at, ExtentId id) {
  return call(DeviceCall::kMap, [&](CallSize& size) -> Status {
    Result<std::shared_ptr<Extent>> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    size.bytes = (*extent)->bytes();
    return parts_.addresses.map(at, *std::move(extent), index());
  });
}

Status SimDevice::set_access(AddressRange range, DeviceIndex accessor, Access access) {
  return call(DeviceCall::kSetAccess, [&](CallSize& size) -> Status {
    Result<size_t> extents = parts_.addresses.set_access(range, {accessor, access}, index());
    if (extents.ok()) size = {range.bytes, *extents};
    return extents.status();
  });
}

Status SimDevice::unmap(AddressRange range) {
  return call(DeviceCall::kUnmap, [&](CallSize& size) -> Status {
    Result<size_t> extents = parts_.addresses.unmap(range, index());
    if (extents.ok()) size = {range.bytes, *extents};
    return extents.status();
  });
}

Result<std::shared_ptr<Extent>> SimDevice::find_extent(ExtentId id) const {
  MutexLock lock(extents_mutex_);
  const auto found = extents_.find(id);
  if (found == extents_.end()) {
    return Status::invalid_argument(text("extent ", id, " is not an extent of device ", index()));
  }
  return found->second;
}

ExtentId SimDevice::keep_extent(std::shared_ptr<Extent> extent) {
  const ExtentId id(parts_.last_extent.fetch_add(1, std::memory_order_relaxed) + 1);
  MutexLock lock(extents_mutex_);
  extents_.emplace(id, std::move(extent));
  return id;
}

// --- sharing ------------------------------------------------------------------------------------

Result<UniqueFd> SimDevice::export_fd(ExtentId id) {
  return call(DeviceCall::kExportFd, [&](CallSize& size) -> Result<UniqueFd> {
    Result<std::shared_ptr<Extent>> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    size.bytes = (*extent)->bytes();
    if (!(*extent)->exportable().export_fd) {
      return Status::invalid_argument(text("extent ", id, " was not created with export_fd"));
    }
    UniqueFd fd(::fcntl((*extent)->fd(), F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return Status::device_fault("fcntl", errno, std::strerror(errno));
    parts_.own_exports.add(*extent);
    return fd;
  });
}

Result<ExtentId> SimDevice::import_fd(int fd, size_t bytes) {
  return call(DeviceCall::kImportFd, [&](CallSize& size) -> Result<ExtentId> {
    size.bytes = bytes;
    if (!properties_.can_export_fd) return Status::unsupported("no bytes in bookkeeping");
    if (bytes == 0 || !is_aligned(bytes, properties_.granularity_bytes)) {
      return Status::invalid_argument(text("cannot import ", bytes, " B: expected a multiple of ",
                                           properties_.granularity_bytes));
    }
    // The check of size and seals also holds for memory of our own.
    Result<std::shared_ptr<Extent>> extent = PhysicalMemory::import_extent(fd, bytes);
    if (!extent.ok()) return extent.status();
    if (std::shared_ptr<Extent> own = parts_.own_exports.find(fd)) return keep_extent(own);
    return keep_extent(*std::move(extent));
  });
}

Result<FabricHandle> SimDevice::export_fabric(ExtentId id) {
  return call(DeviceCall::kExportFabric, [&](CallSize& size) -> Result<FabricHandle> {
    Result<std::shared_ptr<Extent>> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    size.bytes = (*extent)->bytes();
    if (!(*extent)->exportable().export_fabric) {
      return Status::invalid_argument(text("extent ", id, " was not created with export_fabric"));
    }
    return parts_.fabric.export_extent(*extent, HandleKind::kExtent);
  });
}

Result<ExtentId> SimDevice::import_fabric(const FabricHandle& handle, size_t bytes) {
  return call(DeviceCall::kImportFabric, [&](CallSize& size) -> Result<ExtentId> {
    size.bytes = bytes;
    if (!properties_.can_export_fabric) return Status::unsupported("no bytes in bookkeeping");
    if (bytes == 0 || !is_aligned(bytes, properties_.granularity_bytes)) {
      return Status::invalid_argument(text("cannot import ", bytes, " B: expected a multiple of ",
                                           properties_.granularity_bytes));
    }
    Result<std::shared_ptr<Extent>> extent =
        parts_.fabric.import_extent(handle, HandleKind::kExtent);
    if (!extent.ok()) return extent.status();
    if ((*extent)->bytes() != bytes) {
      return Status::invalid_argument(
          text("the extent has ", (*extent)->bytes(), " B, ", bytes, " B were expected"));
    }
    return keep_extent(*std::move(extent));
  });
}

Result<AllocationHandle> SimDevice::share_allocation(DeviceAddress address) {
  return call(DeviceCall::kShareAllocation, [&](CallSize&) -> Result<AllocationHandle> {
    if (!properties_.can_share_allocations) return Status::unsupported("no bytes in bookkeeping");
    Result<std::shared_ptr<Extent>> extent =
        parts_.addresses.placed(address, index(), MappingKind::kAllocation);
    if (!extent.ok()) return extent.status();
    return parts_.fabric.export_extent(*extent, HandleKind::kAllocation);
  });
}

Result<DeviceAddress> SimDevice::open_allocation(const AllocationHandle& handle) {
  return call(DeviceCall::kOpenAllocation, [&](CallSize& size) -> Result<DeviceAddress> {
    if (!properties_.can_share_allocations) return Status::unsupported("no bytes in bookkeeping");
    Result<std::shared_ptr<Extent>> extent =
        parts_.fabric.import_extent(handle, HandleKind::kAllocation);
    if (!extent.ok()) return extent.status();
    size.bytes = (*extent)->bytes();
    return parts_.addresses.place(*std::move(extent), index(), MappingKind::kOpened);
  });
}

Status SimDevice::close_allocation(DeviceAddress address) {
  return call(DeviceCall::kCloseAllocation, [&](CallSize&) {
    return parts_.addresses.remove(address, index(), MappingKind::kOpened).status();
  });
}

// --- peers --------------------------------------------------------------------------------------

Status SimDevice::check_peer(DeviceIndex peer) const {
  if (peer.value() < parts_.options.device_count) return {};
  return Status::invalid_argument(
      text("there is no device ", peer, " (there are ", parts_.options.device_count, ")"));
}

Result<bool> SimDevice::can_access_peer(DeviceIndex peer) {
  return call(DeviceCall::kCanAccessPeer, [&](CallSize&) -> Result<bool> {
    if (Status known = check_peer(peer); !known.ok()) return known;
    return peer != index();
  });
}

Status SimDevice::enable_peer_access(DeviceIndex peer) {
  return call(DeviceCall::kEnablePeerAccess, [&](CallSize&) -> Status {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (peer == index()) return Status::unsupported("a device is not its own peer");
    parts_.addresses.set_peer_access(index(), peer, true);
    return {};
  });
}

Status SimDevice::disable_peer_access(DeviceIndex peer) {
  return call(DeviceCall::kDisablePeerAccess, [&](CallSize&) -> Status {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (peer == index()) return Status::unsupported("a device is not its own peer");
    parts_.addresses.set_peer_access(index(), peer, false);
    return {};
  });
}

// --- pinned host memory -------------------------------------------------------------------------

Result<void*> SimDevice::allocate_host(size_t bytes) {
  return call(DeviceCall::kAllocateHost, [&](CallSize& size) -> Result<void*> {
    size.bytes = bytes;
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B of host memory");
    if (Status ok = parts_.captures.allow_unsafe("allocate_host"); !ok.ok()) return ok;
    return parts_.host_memory.allocate(bytes, index());
  });
}

Status SimDevice::free_host(void* memory) {
  return call(DeviceCall::kFreeHost, [&](CallSize& size) -> Status {
    Status known = parts_.host_memory.check_allocated(memory, index());
    if (!known.ok()) return known;
    if (Status ok = parts_.captures.allow_unsafe("free_host"); !ok.ok()) return ok;
    Result<size_t> freed = parts_.host_memory.free(memory, index());
    if (freed.ok()) size.bytes = *freed;
    return freed.status();
  });
}

Status SimDevice::register_host(void* memory, size_t bytes) {
  return call(DeviceCall::kRegisterHost,
              [&](CallSize&) { return parts_.host_memory.add(memory, bytes, index()); });
}

Status SimDevice::unregister_host(void* memory) {
  return call(DeviceCall::kUnregisterHost,
              [&](CallSize&) { return parts_.host_memory.remove(memory, index()); });
}

// --- the stream-ordered pool
// ----------------------------------------------------------------------

Result<DeviceAddress> SimDevice::allocate_async(size_t bytes, StreamId id) {
  return call(DeviceCall::kAllocateAsync, [&](CallSize& size) -> Result<DeviceAddress> {
    size.bytes = bytes;
    Result<std::shared_ptr<Stream>> stream = parts_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    if (parts_.captures.capturing(**stream)) {
      return Status::unsupported("allocate_async in a capturing stream");
    }
    if (Status ok = parts_.captures.allow_unsafe("allocate_async"); !ok.ok()) return ok;
    return pool_.allocate(bytes, id);
  });
}

Status SimDevice::free_async(DeviceAddress address, StreamId id) {
  return call(DeviceCall::kFreeAsync, [&](CallSize&) -> Status {
    Result<std::shared_ptr<Stream>> stream = parts_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    if (parts_.captures.capturing(**stream)) {
      return Status::unsupported("free_async in a capturing stream");
    }
    if (Status known = pool_.check_allocated(address); !known.ok()) return known;
    if (Status ok = parts_.captures.allow_unsafe("free_async"); !ok.ok()) return ok;
    return pool_.free(address, id, (*stream)->mark());
  });
}

Result<DriverPoolStats> SimDevice::driver_pool_stats() {
  return call(DeviceCall::kDriverPoolStats, [&](CallSize&) -> Result<DriverPoolStats> {
    if (Status ok = parts_.captures.allow_unsafe("driver_pool_stats"); !ok.ok()) return ok;
    return pool_.stats();
  });
}

Status SimDevice::reset_pool_peaks() {
  return call(DeviceCall::kResetPoolPeaks, [&](CallSize&) -> Status {
    if (Status ok = parts_.captures.allow_unsafe("reset_pool_peaks"); !ok.ok()) return ok;
    pool_.reset_peaks();
    return {};
  });
}

Status SimDevice::set_pool_threshold(size_t keep_bytes) {
  return call(DeviceCall::kSetPoolThreshold, [&](CallSize&) -> Status {
    if (Status ok = parts_.captures.allow_unsafe("set_pool_threshold"); !ok.ok()) return ok;
    pool_.set_threshold(keep_bytes);
    return {};
  });
}

Status SimDevice::trim_pool(size_t keep_bytes) {
  return call(DeviceCall::kTrimPool, [&](CallSize&) -> Status {
    if (Status ok = parts_.captures.allow_unsafe("trim_pool"); !ok.ok()) return ok;
    pool_.trim(keep_bytes);
    return {};
  });
}

}  // namespace ashlar::sim
