// SPDX-License-Identifier: Apache-2.0
//
// A real device as the engines' contract suite needs it: it seems to have as much memory as the
// test says, none of it used, and its calls can be made to fail. All else is the device's own.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "ashlar/clock.h"
#include "base/mutex.h"
#include "device/forwarding_device.h"
#include "device/relaxed_capture.h"
#include "device/sim/faults.h"

namespace ashlar::contract {

class GuardedDevice final : public ForwardingDevice {
 public:
  GuardedDevice(Device& device, size_t capacity_bytes)
      : ForwardingDevice(device),
        capacity_bytes_(capacity_bytes),
        properties_(device.properties()),
        faults_(1, clock_) {
    properties_.capacity_bytes = capacity_bytes;
  }

  const DeviceProperties& properties() const override { return properties_; }

  sim::Faults& faults() { return faults_; }
  // Every call that engines make fails with this, until it is ok again.
  void set_lost(Status reason) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    lost_ = std::move(reason);
  }

  // --- memory: counted, and refused above the capacity -------------------------------------------

  Result<MemoryStats> memory_stats() override {
    return gated(DeviceCall::kMemoryStats, [&]() -> Result<MemoryStats> {
      Result<DriverPoolStats> pool = DriverPoolStats{};
      if (uses_pool_.load()) {  // or asking would make one
        const RelaxedCapture relaxed(device());
        pool = ForwardingDevice::driver_pool_stats();
      }
      if (!pool.ok()) return pool.status();
      MutexLock lock(mutex_);
      size_t used_bytes = used_bytes_ + pool->reserved_bytes;
      for (const auto& [address, bytes] : pooled_) used_bytes -= bytes;
      return MemoryStats{capacity_bytes_ - std::min(used_bytes, capacity_bytes_), capacity_bytes_};
    });
  }
  Result<DeviceAddress> allocate(size_t bytes) override {
    return gated(DeviceCall::kAllocate, [&] {
      return counted(bytes, allocations_, [&] { return ForwardingDevice::allocate(bytes); });
    });
  }
  Status free(DeviceAddress address) override {
    return gated(DeviceCall::kFree, [&] {
      return uncounted(address, allocations_, [&] { return ForwardingDevice::free(address); });
    });
  }
  Result<ExtentId> create(size_t bytes, const CreateOptions& options) override {
    return gated(DeviceCall::kCreate, [&] {
      return counted(bytes, extents_, [&] { return ForwardingDevice::create(bytes, options); });
    });
  }
  Status release(ExtentId extent) override {
    return gated(DeviceCall::kRelease, [&] {
      return uncounted(extent, extents_, [&] { return ForwardingDevice::release(extent); });
    });
  }

  // Refused above the capacity until it is handed back: what the driver's pool keeps is counted as
  // used, but it would serve any request.
  Result<DeviceAddress> allocate_async(size_t bytes, StreamId stream) override {
    uses_pool_.store(true);
    return gated(DeviceCall::kAllocateAsync, [&] {
      return counted(bytes, pooled_,
                     [&] { return ForwardingDevice::allocate_async(bytes, stream); });
    });
  }
  Status free_async(DeviceAddress address, StreamId stream) override {
    return gated(DeviceCall::kFreeAsync, [&] {
      return uncounted(address, pooled_,
                       [&] { return ForwardingDevice::free_async(address, stream); });
    });
  }

  // --- what engines call besides -----------------------------------------------------------------

  Result<DriverPoolStats> driver_pool_stats() override {
    return gated(DeviceCall::kDriverPoolStats,
                 [&] { return ForwardingDevice::driver_pool_stats(); });
  }
  Status reset_pool_peaks() override {
    return gated(DeviceCall::kResetPoolPeaks, [&] { return ForwardingDevice::reset_pool_peaks(); });
  }
  Status set_pool_threshold(size_t keep_bytes) override {
    return gated(DeviceCall::kSetPoolThreshold,
                 [&] { return ForwardingDevice::set_pool_threshold(keep_bytes); });
  }
  Status trim_pool(size_t keep_bytes) override {
    return gated(DeviceCall::kTrimPool, [&] { return ForwardingDevice::trim_pool(keep_bytes); });
  }

  Result<DeviceAddress> reserve(size_t bytes, const ReserveOptions& options) override {
    return gated(DeviceCall::kReserve, [&] { return ForwardingDevice::reserve(bytes, options); });
  }
  Status free_addresses(AddressRange range) override {
    return gated(DeviceCall::kFreeAddresses,
                 [&] { return ForwardingDevice::free_addresses(range); });
  }
  Status map(DeviceAddress at, ExtentId extent) override {
    return gated(DeviceCall::kMap, [&] { return ForwardingDevice::map(at, extent); });
  }
  Status set_access(AddressRange range, DeviceIndex accessor, Access access) override {
    return gated(DeviceCall::kSetAccess,
                 [&] { return ForwardingDevice::set_access(range, accessor, access); });
  }
  Status unmap(AddressRange range) override {
    return gated(DeviceCall::kUnmap, [&] { return ForwardingDevice::unmap(range); });
  }
  Result<StreamId> create_stream(const StreamOptions& options) override {
    return gated(DeviceCall::kCreateStream,
                 [&] { return ForwardingDevice::create_stream(options); });
  }
  Status destroy_stream(StreamId stream) override {
    return gated(DeviceCall::kDestroyStream,
                 [&] { return ForwardingDevice::destroy_stream(stream); });
  }
  Result<bool> is_idle(StreamId stream) override {
    return gated(DeviceCall::kIsIdle, [&] { return ForwardingDevice::is_idle(stream); });
  }
  Status synchronize_stream(StreamId stream) override {
    return gated(DeviceCall::kSynchronizeStream,
                 [&] { return ForwardingDevice::synchronize_stream(stream); });
  }
  Status synchronize_device() override {
    return gated(DeviceCall::kSynchronizeDevice,
                 [&] { return ForwardingDevice::synchronize_device(); });
  }
  Result<EventId> create_event(const EventOptions& options) override {
    return gated(DeviceCall::kCreateEvent, [&] { return ForwardingDevice::create_event(options); });
  }
  Status destroy_event(EventId event) override {
    return gated(DeviceCall::kDestroyEvent, [&] { return ForwardingDevice::destroy_event(event); });
  }
  Status record_event(EventId event, StreamId stream) override {
    return gated(DeviceCall::kRecordEvent,
                 [&] { return ForwardingDevice::record_event(event, stream); });
  }
  Result<bool> is_done(EventId event) override {
    return gated(DeviceCall::kIsDone, [&] { return ForwardingDevice::is_done(event); });
  }
  Status synchronize_event(EventId event) override {
    return gated(DeviceCall::kSynchronizeEvent,
                 [&] { return ForwardingDevice::synchronize_event(event); });
  }
  Status wait_event(StreamId stream, EventId event) override {
    return gated(DeviceCall::kWaitEvent,
                 [&] { return ForwardingDevice::wait_event(stream, event); });
  }
  Result<CaptureState> capture_state(StreamId stream) override {
    return gated(DeviceCall::kCaptureState,
                 [&] { return ForwardingDevice::capture_state(stream); });
  }
  Result<CaptureMode> exchange_capture_mode(CaptureMode mode) override {
    return gated(DeviceCall::kExchangeCaptureMode,
                 [&] { return ForwardingDevice::exchange_capture_mode(mode); });
  }

 private:
  template <typename Act>
  auto gated(DeviceCall call, const Act& act) -> decltype(act()) {
    Status refused = faults_.apply(call, properties().index);
    if (refused.is(StatusKind::kDeviceLost)) set_lost(refused);
    {
      MutexLock lock(mutex_);
      if (!lost_.ok()) refused = lost_;
    }
    if (!refused.ok()) return refused;
    return act();
  }
  template <typename Id, typename Act>
  Result<Id> counted(size_t bytes, std::map<Id, size_t>& sizes, const Act& act)
      ASHLAR_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (bytes > capacity_bytes_ - used_bytes_) return Status::out_of_memory("guarded: full");
      used_bytes_ += bytes;
    }
    Result<Id> made = act();
    MutexLock lock(mutex_);
    if (made.ok()) sizes[*made] = bytes;
    if (!made.ok()) used_bytes_ -= bytes;
    return made;
  }
  template <typename Id, typename Act>
  Status uncounted(const Id& id, std::map<Id, size_t>& sizes, const Act& act)
      ASHLAR_EXCLUDES(mutex_) {
    // Forgotten first: once it is gone, another thread may be given the same address.
    size_t bytes = 0;
    {
      MutexLock lock(mutex_);
      const auto found = sizes.find(id);
      if (found != sizes.end()) {
        bytes = found->second;
        sizes.erase(found);
      }
    }
    Status gone = act();
    MutexLock lock(mutex_);
    if (gone.ok()) used_bytes_ -= bytes;
    if (!gone.ok() && bytes > 0) sizes[id] = bytes;
    return gone;
  }

  const size_t capacity_bytes_;
  DeviceProperties properties_;
  SteadyClock clock_;
  sim::Faults faults_;
  Mutex mutex_;
  size_t used_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::map<DeviceAddress, size_t> allocations_;  // these three under `mutex_`, which a reference
  std::map<ExtentId, size_t> extents_;           // to them cannot say
  std::map<DeviceAddress, size_t> pooled_;
  std::atomic<bool> uses_pool_{false};
  Status lost_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::contract
