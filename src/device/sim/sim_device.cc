// SPDX-License-Identifier: Apache-2.0
//
// Implements the memory of a simulated device: plain, virtual, shared, peer, pinned host and pool
// memory.
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

// The size of a plain allocation is rounded up to a multiple of this. Real drivers pack small
// allocations instead.
constexpr size_t kAllocationGranularityBytes = 64 * kKiB;

}  // namespace

SimDevice::SimDevice(Machine::Impl& machine, DeviceProperties properties, PhysicalMemory& memory)
    : machine_(machine),
      properties_(std::move(properties)),
      memory_(memory),
      interceptor_(properties_.index, machine.faults),
      pool_(properties_.index, memory, machine.addresses) {}

// --- identity

Result<DeviceMemoryStats> SimDevice::memory_stats() {
  return call(DeviceCall::kMemoryStats, [&](CallSize&) -> Result<DeviceMemoryStats> {
    const size_t total = memory_.capacity_bytes();
    return DeviceMemoryStats{total - memory_.used_bytes(), total};
  });
}

Result<std::vector<ProcessMemoryUsage>> SimDevice::processes() {
  return call(DeviceCall::kProcesses, [&](CallSize&) -> Result<std::vector<ProcessMemoryUsage>> {
    return std::vector<ProcessMemoryUsage>{{::getpid(), memory_.used_bytes()}};
  });
}

Status SimDevice::last_error() {
  return interceptor_.is_lost() ? interceptor_.lost_status() : last_error_.peek();
}

Status SimDevice::take_last_error() {
  const Status taken = last_error_.take();
  return interceptor_.is_lost() ? interceptor_.lost_status() : taken;
}

// --- plain memory

Result<DeviceAddress> SimDevice::allocate(size_t bytes) {
  return call(DeviceCall::kAllocate, [&](CallSize& size) -> Result<DeviceAddress> {
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
    if (Status ok = machine_.captures.check_unsafe_call("allocate"); !ok.ok()) return ok;
    const auto rounded = try_align_up(bytes, kAllocationGranularityBytes);
    if (!rounded) return Status::out_of_memory(text("no device has ", bytes, " B"));
    size.bytes = *rounded;
    Result<std::shared_ptr<Extent>> extent = memory_.create_extent(*rounded, {});
    if (!extent.ok()) return extent.status();
    return machine_.addresses.allocate(*std::move(extent), index(), MappingKind::kAllocation);
  });
}

Status SimDevice::free(DeviceAddress address) {
  return call(DeviceCall::kFree, [&](CallSize& size) -> Status {
    const auto known =
        machine_.addresses.find_allocation(address, index(), MappingKind::kAllocation);
    if (!known.ok()) return known.status();
    if (Status ok = machine_.captures.check_unsafe_call("free"); !ok.ok()) return ok;
    Result<size_t> freed = machine_.addresses.free(address, index(), MappingKind::kAllocation);
    if (freed.ok()) size.bytes = *freed;
    return freed.status();
  });
}

Result<AddressDescription> SimDevice::describe(DeviceAddress address) {
  return call(DeviceCall::kDescribe, [&](CallSize&) -> Result<AddressDescription> {
    const AddressDescription device_memory = machine_.addresses.describe(address);
    if (device_memory.kind != MemoryKind::kUnknown) return device_memory;
    return machine_.pinned_memory.describe(address);
  });
}

// --- virtual memory

Result<DeviceAddress> SimDevice::reserve(size_t bytes, const ReserveOptions& options) {
  return call(DeviceCall::kReserve, [&](CallSize& size) {
    size.bytes = bytes;
    return machine_.addresses.reserve(bytes, options, index());
  });
}

Status SimDevice::free_addresses(AddressRange range) {
  return call(DeviceCall::kFreeAddresses, [&](CallSize& size) {
    size.bytes = range.bytes;
    return machine_.addresses.free_addresses(range, index());
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
    if ((options.can_export_fd && !properties_.can_export_fd) ||
        (options.can_export_fabric && !properties_.can_export_fabric)) {
      return Status::unsupported("extents cannot be exported with Backing::kBookkeeping");
    }
    Result<std::shared_ptr<Extent>> extent = memory_.create_extent(bytes, options);
    if (!extent.ok()) return extent.status();
    return add_extent(*std::move(extent));
  });
}

Status SimDevice::release(ExtentId id) {
  return call(DeviceCall::kRelease, [&](CallSize& size) -> Status {
    // Destroyed after unlocking, because the destructor may punch a hole in the file (slow).
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
    return machine_.addresses.map(at, *std::move(extent), index());
  });
}

Status SimDevice::set_access(AddressRange range, DeviceIndex accessor, Access access) {
  return call(DeviceCall::kSetAccess, [&](CallSize& size) -> Status {
    Result<size_t> extents = machine_.addresses.set_access(range, {accessor, access}, index());
    if (extents.ok()) size = {range.bytes, *extents};
    return extents.status();
  });
}

Status SimDevice::unmap(AddressRange range) {
  return call(DeviceCall::kUnmap, [&](CallSize& size) -> Status {
    Result<size_t> extents = machine_.addresses.unmap(range, index());
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

ExtentId SimDevice::add_extent(std::shared_ptr<Extent> extent) {
  const ExtentId id(machine_.last_extent.fetch_add(1, std::memory_order_relaxed) + 1);
  MutexLock lock(extents_mutex_);
  extents_.emplace(id, std::move(extent));
  return id;
}

// --- sharing

Result<UniqueFd> SimDevice::export_fd(ExtentId id) {
  return call(DeviceCall::kExportFd, [&](CallSize& size) -> Result<UniqueFd> {
    Result<std::shared_ptr<Extent>> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    size.bytes = (*extent)->bytes();
    if (!(*extent)->export_options().can_export_fd) {
      return Status::invalid_argument(text("extent ", id, " lacks can_export_fd"));
    }
    UniqueFd fd(::fcntl((*extent)->fd(), F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return Status::device_fault("fcntl", errno, std::strerror(errno));
    machine_.exports.add(*extent);
    return fd;
  });
}

Result<ExtentId> SimDevice::import_fd(int fd, size_t bytes) {
  return call(DeviceCall::kImportFd, [&](CallSize& size) -> Result<ExtentId> {
    size.bytes = bytes;
    if (!properties_.can_export_fd)
      return Status::unsupported("not supported with Backing::kBookkeeping");
    if (bytes == 0 || !is_aligned(bytes, properties_.granularity_bytes)) {
      return Status::invalid_argument(text("cannot import ", bytes, " B: expected a multiple of ",
                                           properties_.granularity_bytes));
    }
    // Even a file of this machine is imported first, because the import checks size and seals.
    Result<std::shared_ptr<Extent>> extent = PhysicalMemory::import_extent(fd, bytes);
    if (!extent.ok()) return extent.status();
    if (std::shared_ptr<Extent> known = machine_.exports.find(fd)) return add_extent(known);
    return add_extent(*std::move(extent));
  });
}

Result<FabricHandle> SimDevice::export_fabric(ExtentId id) {
  return call(DeviceCall::kExportFabric, [&](CallSize& size) -> Result<FabricHandle> {
    Result<std::shared_ptr<Extent>> extent = find_extent(id);
    if (!extent.ok()) return extent.status();
    size.bytes = (*extent)->bytes();
    if (!(*extent)->export_options().can_export_fabric) {
      return Status::invalid_argument(text("extent ", id, " lacks can_export_fabric"));
    }
    return machine_.fabric.export_extent(*extent, HandleKind::kExtent);
  });
}

Result<ExtentId> SimDevice::import_fabric(const FabricHandle& handle, size_t bytes) {
  return call(DeviceCall::kImportFabric, [&](CallSize& size) -> Result<ExtentId> {
    size.bytes = bytes;
    if (!properties_.can_export_fabric)
      return Status::unsupported("not supported with Backing::kBookkeeping");
    if (bytes == 0 || !is_aligned(bytes, properties_.granularity_bytes)) {
      return Status::invalid_argument(text("cannot import ", bytes, " B: expected a multiple of ",
                                           properties_.granularity_bytes));
    }
    Result<std::shared_ptr<Extent>> extent =
        machine_.fabric.import_extent(handle, HandleKind::kExtent);
    if (!extent.ok()) return extent.status();
    if ((*extent)->bytes() != bytes) {
      return Status::invalid_argument(
          text("the extent has ", (*extent)->bytes(), " B, ", bytes, " B were expected"));
    }
    return add_extent(*std::move(extent));
  });
}

Result<AllocationHandle> SimDevice::share_allocation(DeviceAddress address) {
  return call(DeviceCall::kShareAllocation, [&](CallSize&) -> Result<AllocationHandle> {
    if (!properties_.can_share_allocations)
      return Status::unsupported("not supported with Backing::kBookkeeping");
    Result<std::shared_ptr<Extent>> extent =
        machine_.addresses.find_allocation(address, index(), MappingKind::kAllocation);
    if (!extent.ok()) return extent.status();
    return machine_.fabric.export_extent(*extent, HandleKind::kAllocation);
  });
}

Result<DeviceAddress> SimDevice::open_allocation(const AllocationHandle& handle) {
  return call(DeviceCall::kOpenAllocation, [&](CallSize& size) -> Result<DeviceAddress> {
    if (!properties_.can_share_allocations)
      return Status::unsupported("not supported with Backing::kBookkeeping");
    Result<std::shared_ptr<Extent>> extent =
        machine_.fabric.import_extent(handle, HandleKind::kAllocation);
    if (!extent.ok()) return extent.status();
    size.bytes = (*extent)->bytes();
    return machine_.addresses.allocate(*std::move(extent), index(), MappingKind::kOpened);
  });
}

Status SimDevice::close_allocation(DeviceAddress address) {
  return call(DeviceCall::kCloseAllocation, [&](CallSize&) {
    return machine_.addresses.free(address, index(), MappingKind::kOpened).status();
  });
}

// --- peers

Status SimDevice::check_peer(DeviceIndex peer) const {
  if (peer.value() < machine_.options.device_count) return {};
  return Status::invalid_argument(
      text("there is no device ", peer, " (there are ", machine_.options.device_count, ")"));
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
    machine_.addresses.set_peer_access(index(), peer, true);
    return {};
  });
}

Status SimDevice::disable_peer_access(DeviceIndex peer) {
  return call(DeviceCall::kDisablePeerAccess, [&](CallSize&) -> Status {
    if (Status known = check_peer(peer); !known.ok()) return known;
    if (peer == index()) return Status::unsupported("a device is not its own peer");
    machine_.addresses.set_peer_access(index(), peer, false);
    return {};
  });
}

// --- pinned host memory

Result<void*> SimDevice::allocate_host(size_t bytes) {
  return call(DeviceCall::kAllocateHost, [&](CallSize& size) -> Result<void*> {
    size.bytes = bytes;
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B of host memory");
    if (Status ok = machine_.captures.check_unsafe_call("allocate_host"); !ok.ok()) return ok;
    return machine_.pinned_memory.allocate(bytes, index());
  });
}

Status SimDevice::free_host(void* memory) {
  return call(DeviceCall::kFreeHost, [&](CallSize& size) -> Status {
    Status known = machine_.pinned_memory.check_allocated(memory, index());
    if (!known.ok()) return known;
    if (Status ok = machine_.captures.check_unsafe_call("free_host"); !ok.ok()) return ok;
    Result<size_t> freed = machine_.pinned_memory.free(memory, index());
    if (freed.ok()) size.bytes = *freed;
    return freed.status();
  });
}

Status SimDevice::register_host(void* memory, size_t bytes) {
  return call(DeviceCall::kRegisterHost,
              [&](CallSize&) { return machine_.pinned_memory.add(memory, bytes, index()); });
}

Status SimDevice::unregister_host(void* memory) {
  return call(DeviceCall::kUnregisterHost,
              [&](CallSize&) { return machine_.pinned_memory.remove(memory, index()); });
}

// --- the stream-ordered pool

Result<DeviceAddress> SimDevice::allocate_async(size_t bytes, StreamId id) {
  return call(DeviceCall::kAllocateAsync, [&](CallSize& size) -> Result<DeviceAddress> {
    size.bytes = bytes;
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    if (machine_.captures.is_capturing(**stream)) {
      return Status::unsupported("allocate_async in a capturing stream");
    }
    if (Status ok = machine_.captures.check_unsafe_call("allocate_async"); !ok.ok()) return ok;
    return pool_.allocate(bytes, id);
  });
}

Status SimDevice::free_async(DeviceAddress address, StreamId id) {
  return call(DeviceCall::kFreeAsync, [&](CallSize&) -> Status {
    Result<std::shared_ptr<SimStream>> stream = machine_.streams.find(index(), id);
    if (!stream.ok()) return stream.status();
    if (machine_.captures.is_capturing(**stream)) {
      return Status::unsupported("free_async in a capturing stream");
    }
    if (Status known = pool_.check_allocated(address); !known.ok()) return known;
    if (Status ok = machine_.captures.check_unsafe_call("free_async"); !ok.ok()) return ok;
    return pool_.free(address, id, (*stream)->mark());
  });
}

Result<DriverPoolStats> SimDevice::driver_pool_stats() {
  return call(DeviceCall::kDriverPoolStats, [&](CallSize&) -> Result<DriverPoolStats> {
    if (Status ok = machine_.captures.check_unsafe_call("driver_pool_stats"); !ok.ok()) return ok;
    return pool_.stats();
  });
}

Status SimDevice::reset_pool_peaks() {
  return call(DeviceCall::kResetPoolPeaks, [&](CallSize&) -> Status {
    if (Status ok = machine_.captures.check_unsafe_call("reset_pool_peaks"); !ok.ok()) return ok;
    pool_.reset_peaks();
    return {};
  });
}

Status SimDevice::set_pool_threshold(size_t keep_bytes) {
  return call(DeviceCall::kSetPoolThreshold, [&](CallSize&) -> Status {
    if (Status ok = machine_.captures.check_unsafe_call("set_pool_threshold"); !ok.ok()) return ok;
    pool_.set_threshold(keep_bytes);
    return {};
  });
}

Status SimDevice::trim_pool(size_t keep_bytes) {
  return call(DeviceCall::kTrimPool, [&](CallSize&) -> Status {
    if (Status ok = machine_.captures.check_unsafe_call("trim_pool"); !ok.ok()) return ok;
    pool_.trim(keep_bytes);
    return {};
  });
}

}  // namespace ashlar::sim
