// SPDX-License-Identifier: Apache-2.0
//
// Wraps a real device for the engine contract: limits its memory to a given capacity, counts only
// the memory allocated through it, and injects faults. Forwards everything else.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "ashlar/clock.h"
#include "base/mutex.h"
#include "device/forwarding_device.h"
#include "device/relaxed_capture.h"
#include "device/sim/fault_injector.h"

namespace ashlar::contract {

class GuardedDevice final : public ForwardingDevice {
 public:
  GuardedDevice(Device& device, size_t capacity_bytes)
      : ForwardingDevice(device),
        capacity_bytes_(capacity_bytes),
        properties_(device.properties()),
        fault_injector_(1, clock_) {
    properties_.capacity_bytes = capacity_bytes;
  }

  const DeviceProperties& properties() const override { return properties_; }

  sim::FaultInjector& fault_injector() { return fault_injector_; }
  // All intercepted calls fail with `reason` until set_lost() is called with an ok status.
  void set_lost(Status reason) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    lost_ = std::move(reason);
  }

  // --- memory: counted and limited

  // Counts memory that the driver's pool caches as used. Allocations do not count that memory
  // against the capacity, because the pool can reuse it.
  Result<DeviceMemoryStats> memory_stats() override {
    return intercept(DeviceCall::kMemoryStats, [&]() -> Result<DeviceMemoryStats> {
      Result<DriverPoolStats> pool = DriverPoolStats{};
      if (uses_pool_.load()) {  // otherwise the query would create the pool
        const RelaxedCapture relaxed(device());
        pool = ForwardingDevice::driver_pool_stats();
      }
      if (!pool.ok()) return pool.status();
      MutexLock lock(mutex_);
      size_t used_bytes = used_bytes_ + pool->reserved_bytes;
      for (const auto& [address, bytes] : pooled_) used_bytes -= bytes;
      return DeviceMemoryStats{capacity_bytes_ - std::min(used_bytes, capacity_bytes_),
                               capacity_bytes_};
    });
  }
  Result<DeviceAddress> allocate(size_t bytes) override {
    return intercept(DeviceCall::kAllocate, [&] {
      return count(bytes, allocations_, [&] { return ForwardingDevice::allocate(bytes); });
    });
  }
  Status free(DeviceAddress address) override {
    return intercept(DeviceCall::kFree, [&] {
      return release_and_uncount(address, allocations_,
                                 [&] { return ForwardingDevice::free(address); });
    });
  }
  Result<ExtentId> create(size_t bytes, const CreateOptions& options) override {
    return intercept(DeviceCall::kCreate, [&] {
      return count(bytes, extents_, [&] { return ForwardingDevice::create(bytes, options); });
    });
  }
  Status release(ExtentId extent) override {
    return intercept(DeviceCall::kRelease, [&] {
      return release_and_uncount(extent, extents_,
                                 [&] { return ForwardingDevice::release(extent); });
    });
  }

  Result<DeviceAddress> allocate_async(size_t bytes, StreamId stream) override {
    uses_pool_.store(true);
    return intercept(DeviceCall::kAllocateAsync, [&] {
      return count(bytes, pooled_, [&] { return ForwardingDevice::allocate_async(bytes, stream); });
    });
  }
  Status free_async(DeviceAddress address, StreamId stream) override {
    return intercept(DeviceCall::kFreeAsync, [&] {
      return release_and_uncount(address, pooled_,
                                 [&] { return ForwardingDevice::free_async(address, stream); });
    });
  }

  // --- other functions that engines call

  Result<DriverPoolStats> driver_pool_stats() override {
    return intercept(DeviceCall::kDriverPoolStats,
                     [&] { return ForwardingDevice::driver_pool_stats(); });
  }
  Status reset_pool_peaks() override {
    return intercept(DeviceCall::kResetPoolPeaks,
                     [&] { return ForwardingDevice::reset_pool_peaks(); });
  }
  Status set_pool_threshold(size_t keep_bytes) override {
    return intercept(DeviceCall::kSetPoolThreshold,
                     [&] { return ForwardingDevice::set_pool_threshold(keep_bytes); });
  }
  Status trim_pool(size_t keep_bytes) override {
    return intercept(DeviceCall::kTrimPool,
                     [&] { return ForwardingDevice::trim_pool(keep_bytes); });
  }

  Result<DeviceAddress> reserve(size_t bytes, const ReserveOptions& options) override {
    return intercept(DeviceCall::kReserve,
                     [&] { return ForwardingDevice::reserve(bytes, options); });
  }
  Status free_addresses(AddressRange range) override {
    return intercept(DeviceCall::kFreeAddresses,
                     [&] { return ForwardingDevice::free_addresses(range); });
  }
  Status map(DeviceAddress at, ExtentId extent) override {
    return intercept(DeviceCall::kMap, [&] { return ForwardingDevice::map(at, extent); });
  }
  Status set_access(AddressRange range, DeviceIndex accessor, Access access) override {
    return intercept(DeviceCall::kSetAccess,
                     [&] { return ForwardingDevice::set_access(range, accessor, access); });
  }
  Status unmap(AddressRange range) override {
    return intercept(DeviceCall::kUnmap, [&] { return ForwardingDevice::unmap(range); });
  }
  Result<StreamId> create_stream(const StreamOptions& options) override {
    return intercept(DeviceCall::kCreateStream,
                     [&] { return ForwardingDevice::create_stream(options); });
  }
  Status destroy_stream(StreamId stream) override {
    return intercept(DeviceCall::kDestroyStream,
                     [&] { return ForwardingDevice::destroy_stream(stream); });
  }
  Result<bool> is_idle(StreamId stream) override {
    return intercept(DeviceCall::kIsIdle, [&] { return ForwardingDevice::is_idle(stream); });
  }
  Status synchronize_stream(StreamId stream) override {
    return intercept(DeviceCall::kSynchronizeStream,
                     [&] { return ForwardingDevice::synchronize_stream(stream); });
  }
  Status synchronize_device() override {
    return intercept(DeviceCall::kSynchronizeDevice,
                     [&] { return ForwardingDevice::synchronize_device(); });
  }
  Result<EventId> create_event(const EventOptions& options) override {
    return intercept(DeviceCall::kCreateEvent,
                     [&] { return ForwardingDevice::create_event(options); });
  }
  Status destroy_event(EventId event) override {
    return intercept(DeviceCall::kDestroyEvent,
                     [&] { return ForwardingDevice::destroy_event(event); });
  }
  Status record_event(EventId event, StreamId stream) override {
    return intercept(DeviceCall::kRecordEvent,
                     [&] { return ForwardingDevice::record_event(event, stream); });
  }
  Result<bool> is_done(EventId event) override {
    return intercept(DeviceCall::kIsDone, [&] { return ForwardingDevice::is_done(event); });
  }
  Status synchronize_event(EventId event) override {
    return intercept(DeviceCall::kSynchronizeEvent,
                     [&] { return ForwardingDevice::synchronize_event(event); });
  }
  Status wait_event(StreamId stream, EventId event) override {
    return intercept(DeviceCall::kWaitEvent,
                     [&] { return ForwardingDevice::wait_event(stream, event); });
  }
  Result<CaptureState> capture_state(StreamId stream) override {
    return intercept(DeviceCall::kCaptureState,
                     [&] { return ForwardingDevice::capture_state(stream); });
  }
  Result<CaptureMode> exchange_capture_mode(CaptureMode mode) override {
    return intercept(DeviceCall::kExchangeCaptureMode,
                     [&] { return ForwardingDevice::exchange_capture_mode(mode); });
  }

 private:
  template <typename Call>
  auto intercept(DeviceCall call, const Call& call_device) -> decltype(call_device()) {
    Status refused = fault_injector_.apply(call, properties().index);
    if (refused.is(StatusKind::kDeviceLost)) set_lost(refused);
    {
      MutexLock lock(mutex_);
      if (!lost_.ok()) refused = lost_;
    }
    if (!refused.ok()) return refused;
    return call_device();
  }
  template <typename Id, typename Call>
  Result<Id> count(size_t bytes, std::map<Id, size_t>& sizes, const Call& call_device)
      ASHLAR_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (bytes > capacity_bytes_ - used_bytes_)
        return Status::out_of_memory("the guarded device is full");
      used_bytes_ += bytes;
    }
    Result<Id> made = call_device();
    MutexLock lock(mutex_);
    if (made.ok()) sizes[*made] = bytes;
    if (!made.ok()) used_bytes_ -= bytes;
    return made;
  }
  template <typename Id, typename Call>
  Status release_and_uncount(const Id& id, std::map<Id, size_t>& sizes, const Call& call_device)
      ASHLAR_EXCLUDES(mutex_) {
    // The entry is removed first, because another thread may get the address once it is freed.
    size_t bytes = 0;
    {
      MutexLock lock(mutex_);
      const auto found = sizes.find(id);
      if (found != sizes.end()) {
        bytes = found->second;
        sizes.erase(found);
      }
    }
    Status freed = call_device();
    MutexLock lock(mutex_);
    if (freed.ok()) used_bytes_ -= bytes;
    if (!freed.ok() && bytes > 0) sizes[id] = bytes;
    return freed;
  }

  const size_t capacity_bytes_;
  DeviceProperties properties_;
  SteadyClock clock_;
  sim::FaultInjector fault_injector_;
  Mutex mutex_;
  size_t used_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
  // Sizes in bytes. Guarded by mutex_, which clang cannot check through references.
  std::map<DeviceAddress, size_t> allocations_;
  std::map<ExtentId, size_t> extents_;
  std::map<DeviceAddress, size_t> pooled_;
  std::atomic<bool> uses_pool_{false};
  Status lost_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::contract
