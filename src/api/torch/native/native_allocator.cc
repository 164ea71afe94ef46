// SPDX-License-Identifier: Apache-2.0
//
// Devices, allocation, statistics and sharing. native_pools.cc implements pools, and
// native_history.cc the history and the hooks. The file is long because the interface has many
// functions.
#include "api/torch/native/native_allocator.h"

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <exception>

namespace ashlar::torch::native {
namespace {

std::atomic<NativeAllocator*> installed{nullptr};

using TorchStat = c10::CachingAllocator::Stat;
using TorchStats = c10::CachingAllocator::StatArray;

TorchStat to_torch(const Stat& stat) {
  TorchStat converted;
  converted.current = stat.current;
  converted.peak = stat.peak;
  converted.allocated = stat.increased;
  converted.freed = stat.decreased;
  return converted;
}

// The order of c10::CachingAllocator::StatType.
TorchStats to_torch(const StatTriple& triple) {
  return {to_torch(triple.all), to_torch(triple.small_pool), to_torch(triple.large_pool)};
}

bool run_free_memory_callbacks() {
  bool has_freed = false;
  auto* registry = free_memory_callbacks();
  for (const auto& key : registry->Keys()) has_freed |= registry->Create(key)->Execute();
  return has_freed;
}

// Returns the bytes that PyTorch's own allocator would request from the device for an allocation.
size_t device_request_bytes(size_t bytes) {
  constexpr size_t kMiB = size_t{1} << 20;
  if (bytes <= kMiB) return 2 * kMiB;
  if (bytes < 10 * kMiB) return 20 * kMiB;
  return (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
}

}  // namespace

std::exception_ptr& callback_failure() {
  thread_local std::exception_ptr failure;
  return failure;
}

void warn_of_current_exception(const char* what) noexcept {
  try {
    try {
      throw;
    } catch (const std::exception& failure) {
      TORCH_WARN(what, ": ", failure.what());
    }
  } catch (...) {
    // Either not a std::exception, or the warning handler threw.
  }
}

// Devices.

void NativeAllocator::check_device(Device index) const {
  TORCH_CHECK(index >= 0 && index < device_count_.load(std::memory_order_relaxed) &&
                  static_cast<size_t>(index) < kMaxDevices,
              "Invalid device argument ", static_cast<int>(index), ": did you call init?");
}

NativeAllocator::OpenDevice& NativeAllocator::open_device(Device index) {
  check_device(index);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::atomic<OpenDevice*>& slot = devices_[static_cast<size_t>(index)];
  if (OpenDevice* open = slot.load(std::memory_order_acquire)) return *open;
  DeviceBridge* bridge = bridge_.device(index);
  TORCH_CHECK(bridge != nullptr, "Ashlar: ", bridge_.last_message());
  auto made = std::make_unique<OpenDevice>(*bridge, index);
  check(bridge->add_free_memory_callback(run_free_memory_callbacks));
  if (!is_caching_) bridge->set_caching(false);
  if (const double fraction = configured_memory_fraction(); fraction < 1) {
    check(bridge->set_memory_fraction(fraction));
  }
  if (history_.enabled) apply_history(*made, history_);
  for (const auto& observer : observers_) add_observer(*made, observer);
  for (const auto& tracker : trackers_) add_tracker(*made, tracker);
  OpenDevice* open = made.release();
  slot.store(open, std::memory_order_release);
  return *open;
}

NativeAllocator::OpenDevice* NativeAllocator::open_or_null(Device index) const {
  check_device(index);
  return devices_[static_cast<size_t>(index)].load(std::memory_order_acquire);
}

std::pair<NativeAllocator::OpenDevice*, AllocationInfo> NativeAllocator::owner_of(
    const void* memory) const {
  for (const std::atomic<OpenDevice*>& slot : devices_) {
    OpenDevice* open = slot.load(std::memory_order_acquire);
    if (open == nullptr) continue;
    const AllocationInfo info = open->bridge.find(memory);
    if (info.bytes != 0) return {open, info};
  }
  TORCH_CHECK(false, "invalid device pointer: ", memory);
}

void NativeAllocator::check(ashlar_status status) const {
  TORCH_CHECK(status == ASHLAR_OK, "Ashlar: ", bridge_.last_message());
}

void NativeAllocator::init(int device_count) {
  device_count_.store(std::max(device_count, device_count_.load()));
}
bool NativeAllocator::initialized() { return device_count_.load() > 0; }

// As in PyTorch, computed from the limit in bytes, so slightly less than the fraction that was set.
double NativeAllocator::getMemoryFraction(Device index) {
  const DeviceBridge& bridge = device(index).bridge;
  if (bridge.memory_fraction() >= 1) return 1;
  const auto capacity = static_cast<double>(bridge.capacity_bytes());
  return std::floor(bridge.memory_fraction() * capacity) / capacity;
}

void NativeAllocator::setMemoryFraction(double fraction, Device index) {
  TORCH_CHECK(0 <= fraction && fraction <= 1, "invalid fraction:", fraction,
              ". Please set within [0, 1].");
  check(device(index).bridge.set_memory_fraction(fraction));
}

void NativeAllocator::emptyCache(PoolIdPair pool) {
  for_each_open([&](OpenDevice& open) {
    const PoolId id{pool.first, pool.second};
    check(id.is_default() ? open.bridge.trim() : open.bridge.trim_pool(id));
  });
}

void NativeAllocator::enable(bool is_caching) {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_caching_ = is_caching;
  for_each_open([&](OpenDevice& open) { open.bridge.set_caching(is_caching); });
}

bool NativeAllocator::isEnabled() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_caching_;
}

// As in PyTorch, an input value of 0 is first replaced by the device's free memory.
void NativeAllocator::cacheInfo(Device index, size_t* largest) {
  if (*largest == 0) {
    size_t total_bytes = 0;
    query_memory(largest, &total_bytes);
  }
  if (OpenDevice* open = open_or_null(index)) {
    *largest = std::max(*largest, open->bridge.largest_cached_bytes());
  }
}

SegmentSizes NativeAllocator::getExpandableSegmentSizes(Device index) {
  SegmentSizes sizes;
  OpenDevice* open = open_or_null(index);
  if (open == nullptr) return sizes;
  std::vector<ExpandableSegmentStats> segments;
  check(open->bridge.expandable_segments(segments));
  for (const ExpandableSegmentStats& segment : segments) {
    add_segment_size(sizes, to_stream_handle(segment.stream), segment.is_small,
                     segment.mapped_bytes);
  }
  return sizes;
}

// Allocation.

c10::DataPtr NativeAllocator::allocate(size_t bytes) {
  const Device index = current_device();
  void* memory = nullptr;
  if (bytes != 0) memory = allocate_on(index, bytes, current_stream(index).stream());
  return {memory, memory, &delete_memory, c10::Device(kDeviceType, index)};
}

c10::DeleterFnPtr NativeAllocator::raw_deleter() const { return &delete_memory; }

void NativeAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  copy_blocking(to, from, bytes);
}

void* NativeAllocator::raw_alloc(size_t bytes) {
  if (bytes == 0) return nullptr;
  const Device index = current_device();
  return allocate_on(index, bytes, current_stream(index).stream());
}

void* NativeAllocator::raw_alloc_with_stream(size_t bytes, GpuStreamHandle stream) {
  if (bytes == 0) return nullptr;
  return allocate_on(current_device(), bytes, stream);
}

void* NativeAllocator::allocate_on(Device index, size_t bytes, GpuStreamHandle stream) {
  OpenDevice& open = device(index);
  void* memory = nullptr;
  const ashlar_status status = open.bridge.allocate(bytes, stream, &memory);
  if (C10_UNLIKELY(status != ASHLAR_OK)) throw_allocation_error(open, status, bytes);
  if (const auto* tracer = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(tracer != nullptr)) {
    (*tracer)->trace_gpu_memory_allocation(kDeviceType, reinterpret_cast<uintptr_t>(memory));
  }
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    report_to_profiler(open, memory, static_cast<int64_t>(open.bridge.find(memory).bytes));
  }
  return memory;
}

void NativeAllocator::raw_delete(void* memory) {
  if (memory != nullptr) release(memory);
}

void NativeAllocator::delete_memory(void* memory) {
  if (memory != nullptr) installed.load(std::memory_order_relaxed)->release(memory);
}

void NativeAllocator::release(void* memory) {
  if (const auto* tracer = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(tracer != nullptr)) {
    (*tracer)->trace_gpu_memory_deallocation(kDeviceType, reinterpret_cast<uintptr_t>(memory));
  }
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    const auto [open, info] = owner_of(memory);
    check(bridge_.free(memory));
    report_to_profiler(*open, memory, -static_cast<int64_t>(info.bytes));
    return;
  }
  const ashlar_status status = bridge_.free(memory);
  TORCH_CHECK(status == ASHLAR_OK, "invalid device pointer: ", memory);
}

// Does not throw, because deleters call this function.
void NativeAllocator::report_to_profiler(OpenDevice& open, void* memory,
                                         int64_t bytes) const noexcept {
  AllocatorStats stats;
  if (open.bridge.stats(stats) != ASHLAR_OK) return;
  c10::reportMemoryUsageToProfiler(
      memory, bytes, static_cast<size_t>(stats.allocated_bytes.all.current),
      static_cast<size_t>(stats.reserved_bytes.all.current), c10::Device(kDeviceType, open.index));
}

void NativeAllocator::throw_allocation_error(OpenDevice& open, ashlar_status status, size_t bytes) {
  const std::exception_ptr failure = std::exchange(callback_failure(), nullptr);
  if (failure != nullptr) std::rethrow_exception(failure);
  if (status != ASHLAR_OUT_OF_MEMORY) check(status);
  constexpr size_t kExabyte = size_t{1} << 60;
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < kExabyte, kVendor,
                   " out of memory. Tried to allocate more than 1EB memory.");
  const std::string message = out_of_memory_message(open, bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, false, message);
}

// Returns PyTorch's message and figures, followed by Ashlar's report. As in PyTorch, the memory
// that private pools cache counts as allocated, because only these pools can use it.
std::string NativeAllocator::out_of_memory_message(OpenDevice& open, size_t bytes) const {
  using c10::CachingAllocator::format_size;
  const std::string report = bridge_.last_message();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  query_memory(&free_bytes, &total_bytes);
  AllocatorStats stats;
  check(open.bridge.stats(stats));
  int64_t cached_in_pools = 0;
  for (const auto& [pool, usage] : stats.pools) {
    if (pool.is_default()) continue;
    cached_in_pools += usage.reserved_bytes.all.current - usage.active_bytes.current;
  }
  const int64_t allocated = stats.allocated_bytes.all.current;
  const int64_t reserved = stats.reserved_bytes.all.current;
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), static_cast<size_t>(allocated),
                                   static_cast<size_t>(reserved),
                                   c10::Device(kDeviceType, open.index));
  const double fraction = open.bridge.memory_fraction();
  std::string limit;
  if (fraction < 1) {
    limit = format_size(static_cast<uint64_t>(fraction * static_cast<double>(total_bytes))) +
            " allowed; ";
  }
  std::string in_pools;
  if (cached_in_pools > 0) {
    in_pools = "with " + format_size(static_cast<uint64_t>(cached_in_pools)) +
               " allocated in private pools (e.g., " + kVendor + " Graphs), ";
  }
  const int64_t unallocated = std::max<int64_t>(reserved - allocated - cached_in_pools, 0);
  return c10::str(
      kVendor, " out of memory. Tried to allocate ", format_size(device_request_bytes(bytes)),
      ". GPU ", static_cast<int>(open.index), " has a total capacity of ", format_size(total_bytes),
      " of which ", format_size(free_bytes), " is free. ", limit, "Of the allocated memory ",
      format_size(static_cast<uint64_t>(allocated + cached_in_pools)), " is allocated by PyTorch, ",
      in_pools, "and ", format_size(static_cast<uint64_t>(unallocated)),
      " is reserved by PyTorch but unallocated. Ashlar ", report);
}

// Ignores memory of other allocators, as PyTorch does, for example of tensors that another process
// shared.
void NativeAllocator::recordStream(const c10::DataPtr& memory, GpuStream stream) {
  if (memory.get() == nullptr || memory.get_deleter() != &delete_memory) return;
  const auto [open, info] = owner_of(memory.get());
  check(open->bridge.record_stream(memory.get(), stream.device_index(), stream.stream()));
}

// Returns the allocation itself for mapped memory, which is not part of a larger allocation.
void* NativeAllocator::getBaseAllocation(void* memory, size_t* bytes) {
  const auto [open, info] = owner_of(memory);
  void* base = memory;
  size_t base_bytes = info.bytes;
  if (open->bridge.base_allocation(memory, &base, &base_bytes) != ASHLAR_OK) {
    base = memory;
    base_bytes = info.bytes;
  }
  if (bytes != nullptr) *bytes = base_bytes;
  return base;
}

// Statistics.

c10::CachingDeviceAllocator::DeviceStats NativeAllocator::getDeviceStats(Device index) {
  c10::CachingDeviceAllocator::DeviceStats converted;
  OpenDevice* open = open_or_null(index);
  if (open == nullptr) return converted;
  AllocatorStats stats;
  check(open->bridge.stats(stats));
  converted.allocation = to_torch(stats.allocation);
  converted.segment = to_torch(stats.segment);
  converted.active = to_torch(stats.active);
  converted.inactive_split = to_torch(stats.inactive_split);
  converted.allocated_bytes = to_torch(stats.allocated_bytes);
  converted.reserved_bytes = to_torch(stats.reserved_bytes);
  converted.active_bytes = to_torch(stats.active_bytes);
  converted.inactive_split_bytes = to_torch(stats.inactive_split_bytes);
  converted.requested_bytes = to_torch(stats.requested_bytes);
  converted.num_alloc_retries = stats.alloc_retries;
  converted.num_ooms = stats.ooms;
  converted.oversize_allocations = to_torch(stats.oversize_allocations);
  converted.oversize_segments = to_torch(stats.oversize_segments);
  converted.num_sync_all_streams = stats.sync_all_streams;
  converted.num_device_alloc = stats.device_allocs;
  converted.num_device_free = stats.device_frees;
  converted.max_split_size = stats.max_split_bytes;
  return converted;
}

void NativeAllocator::resetAccumulatedStats(Device index) {
  if (OpenDevice* open = open_or_null(index)) open->bridge.reset_total_stats();
}

void NativeAllocator::resetPeakStats(Device index) {
  if (OpenDevice* open = open_or_null(index)) open->bridge.reset_peak_stats();
}

// Other processes and devices.

caching::ShareableHandle NativeAllocator::shareIpcHandle(void* memory) {
  OpenDevice* const open = owner_of(memory).first;
  caching::ShareableHandle handle{};
  check(open->bridge.share(memory, [&](std::string_view bytes, ptrdiff_t offset) {
    handle.handle = std::string(bytes);
    handle.offset = offset;
  }));
  return handle;
}

std::shared_ptr<void> NativeAllocator::getIpcDevPtr(std::string handle) {
  const Device index = current_device();
  std::shared_ptr<void> base;
  check(device(index).bridge.open(handle, current_stream(index).stream(), base));
  return base;
}

void NativeAllocator::enablePeerAccess(Device index, Device accessed) {
  check(device(accessed).bridge.enable_peer_access(index));
}

// Without peer access, only a peer copy can copy mapped memory between devices.
GpuError NativeAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device,
                                      size_t bytes, GpuStreamHandle stream, bool has_peer_access) {
  if (has_peer_access || to_device == from_device) return copy_async(to, from, bytes, stream);
  return copy_peer_async(to, to_device, from, from_device, bytes, stream);
}

// Installation.

void install(Bridge& bridge) {
  GpuAllocator* const current = caching::allocator.load();
  TORCH_CHECK(current == nullptr || !current->initialized(),
              "PyTorch already uses the GPU (expected enable() before the first use)");
  auto made = std::make_unique<NativeAllocator>(bridge);
  installed.store(made.get(), std::memory_order_relaxed);
  GpuAllocator* const allocator = made.release();  // lives as long as the process
  caching::allocator.store(allocator);
  c10::SetAllocator(kDeviceType, allocator);
}

}  // namespace ashlar::torch::native
