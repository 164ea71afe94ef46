// SPDX-License-Identifier: Apache-2.0
//
// Implements initialization, plain memory, pinned host memory, the stream-ordered pool and kernels.
// gpu_memory.cc implements virtual memory, gpu_work.cc streams.
#include "device/gpu/gpu_device.h"

#include "base/align.h"
#include "base/system_info.h"
#include "base/text.h"
#include "device/gpu/capability_probe.h"
#include "device/gpu/driver_errors.h"

namespace ashlar::gpu {
namespace {

// The alignment that all vendors guarantee for plain allocations.
constexpr size_t kAllocationAlignmentBytes = 256;
// The largest amount of pinned memory that is requested from a driver: more than any host has, but
// small enough not to overflow in drivers.
constexpr size_t kMaxHostBytes = size_t{1} << 46;

}  // namespace

GpuDevice::GpuDevice(BackendState& backend, DeviceIndex index, DeviceInfo info)
    : backend_(backend), info_(std::move(info)) {
  properties_.backend = driver().backend();
  properties_.index = index;
  properties_.name = info_.name;
  properties_.uuid = info_.uuid;
  properties_.pci_id = info_.pci_id;
  properties_.capacity_bytes = info_.total_bytes;
  properties_.allocation_alignment_bytes = kAllocationAlignmentBytes;
  properties_.has_capture = true;
}

// Does not release memory, events and live streams that the user did not release: they belong to
// the primary context, which other code in the process may still use. Graphs belong to the program
// too, but the objects that they retain use this device.
GpuDevice::~GpuDevice() {
  if (!is_open_ || !fork_guard_.in_creating_process()) return;
  if (!graph_objects_.is_empty()) (void)synchronize_device().ok();  // a lost device does not wait
  graph_objects_.shut_down();
  {
    const ContextGuard context(driver(), ordinal());
    for (const StreamId stream : streams_.retired()) (void)driver().destroy_stream(stream);
    MutexLock lock(mutex_);
    if (pool_ != 0) (void)driver().destroy_pool(pool_);
  }
  driver().release_context(ordinal());
}

Status GpuDevice::ensure_open() const {
  // Drivers do not support forks, and a thread of the parent may have held this object's locks.
  if (Status forked = fork_guard_.check_not_forked("the device"); !forked.ok()) return forked;
  // The first call initializes the device, and may be a const function such as properties().
  GpuDevice& self = const_cast<GpuDevice&>(*this);
  std::call_once(open_once_, [&self] { self.open_status_ = self.initialize(); });
  return open_status_;
}

// Probes in relaxed capture mode, so that the probes do not invalidate captures in progress.
Status GpuDevice::initialize() {
  if (Status used = to_status(driver().retain_context(ordinal())); !used.ok()) return used;
  is_open_ = true;
  const ContextGuard context(driver(), ordinal());
  if (!context.result().ok()) return to_status(context.result());
  CaptureMode mode = CaptureMode::kRelaxed;
  if (Status relaxed = to_status(driver().exchange_capture_mode(mode)); !relaxed.ok())
    return relaxed;
  Capabilities found = probe_capabilities(driver(), ordinal(), info_);
  const DriverResult prioritized = driver().greatest_priority(properties_.greatest_priority);
  if (Status back = to_status(driver().exchange_capture_mode(mode)); !back.ok()) return back;

  properties_.has_virtual_memory = found.has_virtual_memory;
  properties_.granularity_bytes = found.has_virtual_memory ? info_.granularity_bytes : 0;
  properties_.can_alias = found.can_alias;
  properties_.alias_probe = std::move(found.alias_probe);
  properties_.can_export_fd = found.can_export_fd;
  properties_.can_export_fabric = found.can_export_fabric;
  properties_.can_share_allocations = found.can_share_allocations;
  properties_.has_stream_ordered_pool = info_.has_stream_ordered_pool;
  return to_status(prioritized);
}

Status GpuDevice::to_status(const DriverResult& result) const {
  return result.ok() ? Status() : status_of(driver(), result);
}

Status GpuDevice::lost_status() const {
  if (!is_lost_.load(std::memory_order_acquire)) return {};
  MutexLock lock(mutex_);
  return lost_;
}

// Marks the device as lost. If called again, keeps the first reason.
void GpuDevice::lose(const Status& reason) {
  MutexLock lock(mutex_);
  if (is_lost_.load(std::memory_order_relaxed)) return;
  lost_ = reason;
  is_lost_.store(true, std::memory_order_release);
}

// --- identity

const DeviceProperties& GpuDevice::properties() const {
  // A failed initialization is not reported here but by all device calls. The probed properties may
  // then be unset.
  (void)ensure_open();
  return properties_;
}

Result<DeviceMemoryStats> GpuDevice::memory_stats() {
  return call([&]() -> Result<DeviceMemoryStats> {
    DeviceMemoryStats stats;
    if (Status queried = to_status(driver().memory_stats(stats)); !queried.ok()) return queried;
    return stats;
  });
}

Result<std::vector<ProcessMemoryUsage>> GpuDevice::processes() {
  return call([&] { return driver().processes(info_); });
}

Status GpuDevice::last_error() {
  const Status lost = lost_status();
  return lost.ok() ? last_error_.peek() : lost;
}

Status GpuDevice::take_last_error() {
  const Status taken = last_error_.take();
  const Status lost = lost_status();
  return lost.ok() ? taken : lost;
}

// --- plain memory

Result<DeviceAddress> GpuDevice::allocate(size_t bytes) {
  return call([&]() -> Result<DeviceAddress> {
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
    if (Status fits = check_capacity(bytes); !fits.ok()) return fits;
    DeviceAddress at;
    if (Status created = to_status(driver().allocate(bytes, at)); !created.ok()) return created;
    ScopeGuard undo([&] { (void)driver().free(at); });
    backend_.addresses.add(RangeKind::kAllocated, {at, bytes}, index());
    undo.dismiss();
    return at;
  });
}

// Rejects sizes above the capacity before the driver is called, because drivers return different
// errors for such sizes.
Status GpuDevice::check_capacity(size_t bytes) const {
  if (bytes <= properties_.capacity_bytes) return {};
  return Status::out_of_memory(
      text(bytes, " B requested, the device has ", properties_.capacity_bytes, " B"));
}

// Removes the entry from the registry before the driver frees the memory, because another thread
// may then receive the same address immediately.
Status GpuDevice::free(DeviceAddress address) {
  return call([&]() -> Status {
    const Result<AddressRange> range =
        backend_.addresses.remove(RangeKind::kAllocated, address, index());
    if (!range.ok()) return range.status();
    Status freed = to_status(driver().free(address));
    if (!freed.ok()) backend_.addresses.add(RangeKind::kAllocated, *range, index());
    return freed;
  });
}

Result<AddressDescription> GpuDevice::describe(DeviceAddress address) {
  return call([&]() -> Result<AddressDescription> {
    if (const auto known = backend_.addresses.describe(address)) return *known;
    if (const auto known = backend_.pinned.describe(address)) return *known;
    AddressInfo found;
    if (Status queried = to_status(driver().query_address(address, found)); !queried.ok())
      return queried;
    if (found.kind == MemoryKind::kUnknown) return AddressDescription{};
    return AddressDescription{found.kind, DeviceIndex(static_cast<uint64_t>(found.device)),
                              found.range};
  });
}

// --- pinned host memory

Result<void*> GpuDevice::allocate_host(size_t bytes) {
  return call([&]() -> Result<void*> {
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B of host memory");
    if (bytes > kMaxHostBytes) return Status::out_of_memory(text("no host has ", bytes, " B"));
    const Result<PinnedRange> pinned = allocate_pages(bytes);
    if (!pinned.ok()) return pinned.status();
    ScopeGuard undo([&] { (void)driver().free_host(pinned->driver_pointer); });
    if (Status noted = backend_.pinned.add(*pinned); !noted.ok()) return noted;
    undo.dismiss();
    return reinterpret_cast<void*>(pinned->range.begin.value());
  });
}

// Allocates page-aligned pinned memory. Drivers do not align small requests to pages (CUDA 13
// aligns requests of up to 1 MiB to 512 B). If the memory is not page aligned, frees it, requests
// one more page, and uses the memory from the first page boundary on.
Result<PinnedRange> GpuDevice::allocate_pages(size_t bytes) {
  const size_t page_bytes = host_page_bytes();
  void* memory = nullptr;
  if (Status created = to_status(driver().allocate_host(bytes, memory)); !created.ok())
    return created;
  if (!is_aligned(reinterpret_cast<uint64_t>(memory), page_bytes)) {
    if (Status freed = to_status(driver().free_host(memory)); !freed.ok()) return freed;
    Status created = to_status(driver().allocate_host(bytes + page_bytes, memory));
    if (!created.ok()) return created;
  }
  const DeviceAddress begin(align_up(reinterpret_cast<uint64_t>(memory), page_bytes));
  return PinnedRange{PinnedKind::kAllocated, index(), {begin, bytes}, memory};
}

Status GpuDevice::free_host(void* memory) {
  return call([&]() -> Status {
    const Result<PinnedRange> pinned =
        backend_.pinned.remove(PinnedKind::kAllocated, memory, index());
    if (!pinned.ok()) return pinned.status();
    Status freed = to_status(driver().free_host(pinned->driver_pointer));
    if (!freed.ok()) (void)backend_.pinned.add(*pinned);
    return freed;
  });
}

Status GpuDevice::register_host(void* memory, size_t bytes) {
  return call([&]() -> Status {
    const AddressRange range{DeviceAddress(reinterpret_cast<uint64_t>(memory)), bytes};
    if (memory == nullptr || bytes == 0 || range.overflows()) {
      return Status::invalid_argument(text("cannot pin ", range, ": expected host memory"));
    }
    Status free = backend_.pinned.add({PinnedKind::kRegistered, index(), range, memory});
    if (!free.ok()) return free;
    Status pinned = to_status(driver().register_host(memory, bytes));
    if (!pinned.ok()) (void)backend_.pinned.remove(PinnedKind::kRegistered, memory, index());
    return pinned;
  });
}

Status GpuDevice::unregister_host(void* memory) {
  return call([&]() -> Status {
    const Result<PinnedRange> pinned =
        backend_.pinned.remove(PinnedKind::kRegistered, memory, index());
    if (!pinned.ok()) return pinned.status();
    Status unpinned = to_status(driver().unregister_host(memory));
    if (!unpinned.ok()) (void)backend_.pinned.add(*pinned);
    return unpinned;
  });
}

// --- the stream-ordered pool

// Creates the pool on first use. It is not the driver's default pool, so that statistics and
// thresholds are not shared with other libraries.
Result<Handle> GpuDevice::pool() {
  if (!properties_.has_stream_ordered_pool) {
    return Status::unsupported("this device has no stream-ordered pool");
  }
  MutexLock lock(mutex_);
  if (pool_ == 0) {
    if (Status created = to_status(driver().create_pool(ordinal(), pool_)); !created.ok())
      return created;
  }
  return pool_;
}

Result<DeviceAddress> GpuDevice::allocate_async(size_t bytes, StreamId stream) {
  return call_on_stream(stream, [&]() -> Result<DeviceAddress> {
    const Result<Handle> from = pool();
    if (!from.ok()) return from.status();
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
    if (Status outside = check_not_capturing(stream, "allocate_async"); !outside.ok())
      return outside;
    if (Status fits = check_capacity(bytes); !fits.ok()) return fits;
    DeviceAddress at;
    Status created = to_status(driver().allocate_async(bytes, *from, stream, at));
    if (!created.ok()) return created;
    ScopeGuard undo([&] { (void)driver().free_async(at, stream); });
    backend_.addresses.add(RangeKind::kPooled, {at, bytes}, index());
    undo.dismiss();
    return at;
  });
}

Status GpuDevice::free_async(DeviceAddress address, StreamId stream) {
  return call_on_stream(stream, [&]() -> Status {
    if (Status outside = check_not_capturing(stream, "free_async"); !outside.ok()) return outside;
    const auto range = backend_.addresses.remove(RangeKind::kPooled, address, index());
    if (!range.ok()) return range.status();
    Status freed = to_status(driver().free_async(address, stream));
    if (!freed.ok()) backend_.addresses.add(RangeKind::kPooled, *range, index());
    return freed;
  });
}

Result<DriverPoolStats> GpuDevice::driver_pool_stats() {
  return call([&]() -> Result<DriverPoolStats> {
    const Result<Handle> pool_handle = pool();
    if (!pool_handle.ok()) return pool_handle.status();
    Status read;
    const auto read_stat = [&](PoolStat stat) -> size_t {
      uint64_t bytes = 0;
      if (read.ok()) read = to_status(driver().pool_stat(*pool_handle, stat, bytes));
      return bytes;
    };
    DriverPoolStats stats;
    stats.reserved_bytes = read_stat(PoolStat::kReserved);
    stats.used_bytes = read_stat(PoolStat::kUsed);
    stats.reserved_peak_bytes = read_stat(PoolStat::kReservedPeak);
    stats.used_peak_bytes = read_stat(PoolStat::kUsedPeak);
    if (!read.ok()) return read;
    return stats;
  });
}

Status GpuDevice::reset_pool_peaks() {
  return call([&]() -> Status {
    const Result<Handle> pool_handle = pool();
    if (!pool_handle.ok()) return pool_handle.status();
    Status reserved = to_status(driver().reset_pool_peak(*pool_handle, PoolStat::kReservedPeak));
    return reserved.ok() ? to_status(driver().reset_pool_peak(*pool_handle, PoolStat::kUsedPeak))
                         : reserved;
  });
}

Status GpuDevice::set_pool_threshold(size_t keep_bytes) {
  return call([&]() -> Status {
    const Result<Handle> pool_handle = pool();
    return pool_handle.ok() ? to_status(driver().set_pool_threshold(*pool_handle, keep_bytes))
                            : pool_handle.status();
  });
}

Status GpuDevice::trim_pool(size_t keep_bytes) {
  return call([&]() -> Status {
    const Result<Handle> pool_handle = pool();
    return pool_handle.ok() ? to_status(driver().trim_pool(*pool_handle, keep_bytes))
                            : pool_handle.status();
  });
}

// --- kernels

Result<Handle> GpuDevice::load_kernels(const void* image) {
  return call([&]() -> Result<Handle> {
    Handle kernels = 0;
    if (Status loaded = to_status(driver().load_kernels(image, kernels)); !loaded.ok())
      return loaded;
    return kernels;
  });
}

Status GpuDevice::unload_kernels(Handle kernels) {
  return call([&] { return to_status(driver().unload_kernels(kernels)); });
}

Result<Handle> GpuDevice::find_kernel(Handle kernels, const char* name) {
  return call([&]() -> Result<Handle> {
    Handle kernel = 0;
    Status found = to_status(driver().find_kernel(kernels, name, kernel));
    if (!found.ok()) return found;
    return kernel;
  });
}

Status GpuDevice::launch(const Driver::LaunchRequest& launch, StreamId stream) {
  return call_on_stream(stream, [&] { return to_status(driver().launch(launch, stream)); });
}

Status GpuDevice::check_access(AddressRange range, Access wanted) {
  return call([&] { return check_memory(range, wanted); });
}

}  // namespace ashlar::gpu
