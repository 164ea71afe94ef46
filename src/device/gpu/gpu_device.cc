// SPDX-License-Identifier: Apache-2.0
//
// A device from its first call to its end: identity, plain memory, pinned host memory.
#include "device/gpu/gpu_device.h"

#include "base/align.h"
#include "base/system_info.h"
#include "base/text.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/trials.h"

namespace ashlar::gpu {
namespace {

// What every vendor promises of plain allocations.
constexpr size_t kPlainAlignmentBytes = 256;
// More than any host has, and less than makes a driver's arithmetic overflow.
constexpr size_t kMostHostBytes = size_t{1} << 46;

}  // namespace

GpuDevice::GpuDevice(Common& common, DeviceIndex index, DeviceFacts facts)
    : common_(common), facts_(std::move(facts)) {
  properties_.backend = driver().backend();
  properties_.index = index;
  properties_.name = facts_.name;
  properties_.uuid = facts_.uuid;
  properties_.pci_id = facts_.pci_id;
  properties_.capacity_bytes = facts_.total_bytes;
  properties_.allocation_alignment_bytes = kPlainAlignmentBytes;
  properties_.has_capture = true;
}

// What the user did not take back stays with the context, which belongs to the whole process.
GpuDevice::~GpuDevice() {
  if (!is_open_) return;
  {
    const Stay stay(driver(), ordinal());
    for (const StreamId stream : own_streams_.retired()) (void)driver().destroy_stream(stream);
    MutexLock lock(mutex_);
    if (pool_ != 0) (void)driver().destroy_pool(pool_);
  }
  driver().leave_for_good(ordinal());
}

Status GpuDevice::ready() const {
  // The first call, const or not, makes the device what its properties say.
  GpuDevice& self = const_cast<GpuDevice&>(*this);
  std::call_once(opened_, [&self] { self.opening_ = self.open(); });
  return opening_;
}

// A capture that goes on elsewhere in the process must not notice.
Status GpuDevice::open() {
  if (Status used = done(driver().use(ordinal())); !used.ok()) return used;
  is_open_ = true;
  const Stay stay(driver(), ordinal());
  if (!stay.outcome().ok()) return done(stay.outcome());
  CaptureMode mode = CaptureMode::kRelaxed;
  if (Status relaxed = done(driver().exchange_capture_mode(mode)); !relaxed.ok()) return relaxed;
  const Abilities found = try_out(driver(), ordinal(), facts_);
  const Outcome prioritized = driver().greatest_priority(properties_.greatest_priority);
  if (Status back = done(driver().exchange_capture_mode(mode)); !back.ok()) return back;

  properties_.has_virtual_memory = found.has_virtual_memory;
  properties_.granularity_bytes = found.has_virtual_memory ? facts_.granularity_bytes : 0;
  properties_.can_alias = found.can_alias;
  properties_.can_export_fd = found.can_export_fd;
  properties_.can_export_fabric = found.can_export_fabric;
  properties_.can_share_allocations = found.can_share_allocations;
  properties_.has_stream_pool = facts_.has_stream_pool;
  return done(prioritized);
}

Status GpuDevice::done(const Outcome& outcome) const {
  return outcome.ok() ? Status() : status_of(driver(), outcome);
}

Status GpuDevice::lost_status() const {
  if (!is_lost_.load(std::memory_order_acquire)) return {};
  MutexLock lock(mutex_);
  return lost_;
}

// The first reason stays.
void GpuDevice::lose(const Status& reason) {
  MutexLock lock(mutex_);
  if (is_lost_.load(std::memory_order_relaxed)) return;
  lost_ = reason;
  is_lost_.store(true, std::memory_order_release);
}

// --- identity -----------------------------------------------------------------------------------

const DeviceProperties& GpuDevice::properties() const {
  // A device that cannot be used has few properties, and each call on it says why.
  (void)ready();
  return properties_;
}

Result<MemoryStats> GpuDevice::memory_stats() {
  return call([&]() -> Result<MemoryStats> {
    MemoryStats use;
    if (Status asked = done(driver().memory_stats(use)); !asked.ok()) return asked;
    return use;
  });
}

Result<std::vector<ProcessUse>> GpuDevice::processes() {
  return call([&] { return driver().processes(facts_); });
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

// --- plain memory -------------------------------------------------------------------------------

Result<DeviceAddress> GpuDevice::allocate(size_t bytes) {
  return call([&]() -> Result<DeviceAddress> {
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
    if (Status fits = refuse_too_large(bytes); !fits.ok()) return fits;
    DeviceAddress at;
    if (Status made = done(driver().allocate(bytes, at)); !made.ok()) return made;
    common_.places.add(PlaceKind::kAllocated, {at, bytes}, index());
    return at;
  });
}

// Drivers disagree about sizes that no device has.
Status GpuDevice::refuse_too_large(size_t bytes) const {
  if (bytes <= properties_.capacity_bytes) return {};
  return Status::out_of_memory(
      text(bytes, " B wanted, of a device with ", properties_.capacity_bytes));
}

// Noted as gone before it is: another thread may be given the same address at once.
Status GpuDevice::free(DeviceAddress address) {
  return call([&]() -> Status {
    const Result<AddressRange> range =
        common_.places.remove(PlaceKind::kAllocated, address, index());
    if (!range.ok()) return range.status();
    Status freed = done(driver().free(address));
    if (!freed.ok()) common_.places.add(PlaceKind::kAllocated, *range, index());
    return freed;
  });
}

Result<AddressDescription> GpuDevice::describe(DeviceAddress address) {
  return call([&]() -> Result<AddressDescription> {
    if (const auto known = common_.places.describe(address)) return *known;
    if (const auto known = common_.pinned.describe(address)) return *known;
    Location found;
    if (Status asked = done(driver().locate(address, found)); !asked.ok()) return asked;
    if (found.kind == MemoryKind::kUnknown) return AddressDescription{};
    return AddressDescription{found.kind, DeviceIndex(static_cast<uint64_t>(found.device)),
                              found.range};
  });
}

// --- pinned host memory -------------------------------------------------------------------------

Result<void*> GpuDevice::allocate_host(size_t bytes) {
  return call([&]() -> Result<void*> {
    if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B of host memory");
    if (bytes > kMostHostBytes) return Status::out_of_memory(text("no host has ", bytes, " B"));
    const Result<Pinned> pinned = allocate_pages(bytes);
    if (!pinned.ok()) return pinned.status();
    if (Status noted = common_.pinned.add(*pinned); !noted.ok()) {
      (void)driver().free_host(pinned->from_driver);
      return noted;
    }
    return reinterpret_cast<void*>(pinned->range.begin.value());
  });
}

// Drivers pack small requests: CUDA 13 does those of up to 1 MiB, at multiples of 512 B. Then a
// page more has one that begins where a page does.
Result<Pinned> GpuDevice::allocate_pages(size_t bytes) {
  const size_t page_bytes = host_page_bytes();
  void* memory = nullptr;
  if (Status made = done(driver().allocate_host(bytes, memory)); !made.ok()) return made;
  if (!is_aligned(reinterpret_cast<uint64_t>(memory), page_bytes)) {
    if (Status freed = done(driver().free_host(memory)); !freed.ok()) return freed;
    Status made = done(driver().allocate_host(bytes + page_bytes, memory));
    if (!made.ok()) return made;
  }
  const DeviceAddress begin(align_up(reinterpret_cast<uint64_t>(memory), page_bytes));
  return Pinned{PinnedKind::kAllocated, index(), {begin, bytes}, memory};
}

Status GpuDevice::free_host(void* memory) {
  return call([&]() -> Status {
    const Result<Pinned> pinned = common_.pinned.remove(PinnedKind::kAllocated, memory, index());
    if (!pinned.ok()) return pinned.status();
    Status freed = done(driver().free_host(pinned->from_driver));
    if (!freed.ok()) (void)common_.pinned.add(*pinned);
    return freed;
  });
}

Status GpuDevice::register_host(void* memory, size_t bytes) {
  return call([&]() -> Status {
    const AddressRange range{DeviceAddress(reinterpret_cast<uint64_t>(memory)), bytes};
    if (memory == nullptr || bytes == 0 || range.overflows()) {
      return Status::invalid_argument(text("cannot pin ", range, ": expected host memory"));
    }
    Status free = common_.pinned.add({PinnedKind::kRegistered, index(), range, memory});
    if (!free.ok()) return free;
    Status pinned = done(driver().register_host(memory, bytes));
    if (!pinned.ok()) (void)common_.pinned.remove(PinnedKind::kRegistered, memory, index());
    return pinned;
  });
}

Status GpuDevice::unregister_host(void* memory) {
  return call([&]() -> Status {
    const Result<Pinned> pinned = common_.pinned.remove(PinnedKind::kRegistered, memory, index());
    if (!pinned.ok()) return pinned.status();
    Status unpinned = done(driver().unregister_host(memory));
    if (!unpinned.ok()) (void)common_.pinned.add(*pinned);
    return unpinned;
  });
}

}  // namespace ashlar::gpu
