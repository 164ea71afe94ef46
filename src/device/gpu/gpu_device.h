// SPDX-License-Identifier: Apache-2.0
//
// One device of a vendor: the contract of `Device` over the vendor's driver (driver.h). What the
// contract promises and a driver does not is done here: ids, addresses and ranges are looked up
// before the driver is asked (places.h, events.h, graphs.h), and its numbers become kinds of
// failure (driver_errors.h). docs/design/gpu_devices.md says why, point by point.
//
// The device takes part in the one context that the process uses for it, and enters it for the time
// of each call: beside a vendor's runtime and other libraries in one process. That begins at the
// first call, properties() included, since a context takes time and memory.
//
// gpu_device.cc has identity and plain memory, gpu_virtual_memory.cc addresses and extents,
// gpu_sharing.cc what crosses processes and devices, gpu_work.cc streams, events and work,
// gpu_capture.cc graphs and the stream-ordered pool; beyond the contract, gpu_kernels.cc has
// kernels and gpu_multicast.cc multicast.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "device/gpu/driver.h"
#include "device/gpu/events.h"
#include "device/gpu/graphs.h"
#include "device/gpu/own_streams.h"
#include "device/gpu/pinned_ranges.h"
#include "device/gpu/places.h"
#include "device/last_error.h"

namespace ashlar::gpu {

class GpuDevice;

// What the devices of one back end have in common. Outlives them.
struct Common {
  Common(std::unique_ptr<Driver> chosen, size_t device_count)
      : driver(std::move(chosen)), places(device_count) {}

  const std::unique_ptr<Driver> driver;
  Places places;
  PinnedRanges pinned;
  Events events;
  std::atomic<uint64_t> last_extent{0};  // relaxed: only uniqueness matters
  std::vector<GpuDevice*> devices;       // by index; constant once all are made
};

class GpuDevice final : public Device {
 public:
  GpuDevice(Common& common, DeviceIndex index, DeviceFacts facts);
  ~GpuDevice() override;
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const DeviceProperties& properties() const override;
  Result<MemoryStats> memory_stats() override;
  Result<std::vector<ProcessUse>> processes() override;
  Status last_error() override;
  Status take_last_error() override;

  Result<DeviceAddress> allocate(size_t bytes) override;
  Status free(DeviceAddress address) override;
  Result<AddressDescription> describe(DeviceAddress address) override;

  Result<DeviceAddress> reserve(size_t bytes, const ReserveOptions& options) override;
  Status free_addresses(AddressRange range) override;
  Result<ExtentId> create(size_t bytes, const CreateOptions& options) override;
  Status release(ExtentId extent) override;
  Status map(DeviceAddress at, ExtentId extent) override;
  Status set_access(AddressRange range, DeviceIndex accessor, Access access) override;
  Status unmap(AddressRange range) override;

  Result<UniqueFd> export_fd(ExtentId extent) override;
  Result<ExtentId> import_fd(int fd, size_t bytes) override;
  Result<FabricHandle> export_fabric(ExtentId extent) override;
  Result<ExtentId> import_fabric(const FabricHandle& handle, size_t bytes) override;
  Result<AllocationHandle> share_allocation(DeviceAddress address) override;
  Result<DeviceAddress> open_allocation(const AllocationHandle& handle) override;
  Status close_allocation(DeviceAddress address) override;

  Result<bool> can_access_peer(DeviceIndex peer) override;
  Status enable_peer_access(DeviceIndex peer) override;
  Status disable_peer_access(DeviceIndex peer) override;

  Result<void*> allocate_host(size_t bytes) override;
  Status free_host(void* memory) override;
  Status register_host(void* memory, size_t bytes) override;
  Status unregister_host(void* memory) override;

  Result<StreamId> create_stream(const StreamOptions& options) override;
  Status destroy_stream(StreamId stream) override;
  Result<bool> is_idle(StreamId stream) override;
  Status synchronize_stream(StreamId stream) override;
  Status synchronize_device() override;

  Result<EventId> create_event(const EventOptions& options) override;
  Status destroy_event(EventId event) override;
  Status record_event(EventId event, StreamId stream) override;
  Result<bool> is_done(EventId event) override;
  Status synchronize_event(EventId event) override;
  Status wait_event(StreamId stream, EventId event) override;
  Result<double> elapsed_ms(EventId begin, EventId end) override;

  Status copy_to_device(DeviceAddress to, const void* from, size_t bytes, StreamId stream) override;
  Status copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) override;
  Status copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) override;
  Status copy_to_peer(DeviceIndex peer, DeviceAddress to, DeviceAddress from, size_t bytes,
                      StreamId stream) override;
  Status fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) override;
  Status call_host(StreamId stream, std::function<void()> function) override;

  Result<DeviceAddress> allocate_async(size_t bytes, StreamId stream) override;
  Status free_async(DeviceAddress address, StreamId stream) override;
  Result<DriverPoolStats> driver_pool_stats() override;
  Status reset_pool_peaks() override;
  Status set_pool_threshold(size_t keep_bytes) override;
  Status trim_pool(size_t keep_bytes) override;

  Status begin_capture(StreamId stream, CaptureMode mode) override;
  Result<GraphId> end_capture(StreamId stream) override;
  Result<CaptureState> capture_state(StreamId stream) override;
  Result<std::vector<NodeId>> node_dependencies(NodeId node) override;
  Result<CaptureMode> exchange_capture_mode(CaptureMode mode) override;
  Status launch_graph(GraphId graph, StreamId stream) override;
  Status destroy_graph(GraphId graph) override;

  // --- beyond the contract: kernels of our own, in gpu_kernels.cc

  // kUnsupported: there are none for this vendor. `image` outlives them.
  Result<Handle> load_kernels(const void* image);
  Status unload_kernels(Handle kernels);
  Result<Handle> find_kernel(Handle kernels, const char* name);
  Status launch(const Driver::Launch& launch, StreamId stream);
  // kInvalidArgument: some byte of it is not memory that this device may touch so.
  Status check_access(AddressRange range, Access wanted);

  // --- and multicast, in gpu_multicast.cc: the driver's calls, in the context of this device.
  // Objects are the driver's own handles; an extent that is bound is one of this device's.

  // kUnsupported: why there is none. Every other call REQUIRES that there is.
  Status multicast_availability() const;
  // Of the sizes of objects and of what is bound to them.
  Result<size_t> multicast_granularity();
  Result<Handle> create_multicast(const Driver::Multicast& wanted);
  Result<UniqueFd> export_multicast_fd(Handle object);
  Result<FabricHandle> export_multicast_fabric(Handle object);
  Result<Handle> import_multicast_fd(int fd);
  Result<Handle> import_multicast_fabric(const FabricHandle& handle);
  Status add_to_multicast(Handle object);
  // All of the extent. Waits in the driver unless all devices were added; so does `map_multicast`.
  Status bind_multicast(Handle object, ExtentId extent);
  Status unbind_multicast(Handle object, size_t bytes);
  // At addresses of their own, which only kernels use: nothing else knows what is there.
  Result<AddressRange> map_multicast(Handle object, size_t bytes);
  Status unmap_multicast(AddressRange range);
  Status release_multicast(Handle object);

 private:
  struct Extent {
    Handle handle = 0;
    size_t bytes = 0;
    CreateOptions exportable;
    bool is_imported = false;
  };

  // One call from entry to account: `body()` runs while the thread is in the device's context. A
  // failure is noted as the thread's last, and a device that the driver calls lost stays lost.
  template <typename Body>
  auto call(const Body& body) -> decltype(body());
  template <typename Body>
  auto call_entered(const Body& body) -> decltype(body());
  // The same on a stream. A driver may crash with one that was destroyed, so those are refused.
  template <typename Body>
  auto call_on(StreamId stream, const Body& body) -> decltype(body());
  Status check_stream(StreamId stream) const;
  bool has_finished(StreamId stream);

  // Takes the device into use, once; ok ever after, or the same failure.
  Status ready() const;
  Status open();
  Status lost_status() const;
  void lose(const Status& reason);

  Driver& driver() const { return *common_.driver; }
  DeviceIndex index() const { return properties_.index; }
  int ordinal() const { return static_cast<int>(properties_.index.value()); }
  // The driver's answer as the contract's.
  Status done(const Outcome& outcome) const;
  Status refuse_too_large(size_t bytes) const;
  Status check_peer(DeviceIndex peer) const;
  Status check_granules(const char* act, size_t bytes) const;

  Result<AddressRange> reserve_range(size_t bytes, size_t alignment_bytes, DeviceAddress hint);
  Result<Extent> find_extent(ExtentId id) const;
  ExtentId keep_extent(const Extent& extent);
  // A descriptor for an extent or a multicast object, which programs that are started do not get.
  Result<UniqueFd> exported_fd(Handle shared);
  // kUnsupported: no driver exports what was imported.
  Status refuse_imported(ExtentId id, const Extent& extent) const;
  // An imported extent under an id; released again if it is not of that size.
  Result<ExtentId> adopt(Extent imported);
  bool has_size(Handle extent, size_t bytes);

  Result<Pinned> allocate_pages(size_t bytes);

  // kInvalidArgument: the accessor may not touch the range so.
  Status check_memory(DeviceIndex accessor, AddressRange range, Access wanted);
  Status check_memory(AddressRange range, Access wanted) {
    return check_memory(index(), range, wanted);
  }
  Status check_host_pointer(const void* memory) const;
  Status check_transfer(DeviceIndex to_accessor, DeviceAddress to, DeviceAddress from,
                        size_t bytes);

  Result<CaptureFacts> capture_facts(StreamId stream);
  // kUnsupported: the stream is capturing.
  Status refuse_capturing(StreamId stream, const char* act);
  Status call_host_in_capture(StreamId stream, Handle graph, std::function<void()> function);
  Result<Handle> pool();

  Common& common_;
  const DeviceFacts facts_;
  mutable std::once_flag opened_;
  // Set once, by the first call; read after it.
  DeviceProperties properties_;
  Status opening_;
  bool is_open_ = false;

  LastError last_error_;
  std::atomic<bool> is_lost_{false};  // released after lost_ is set, acquired before it is read
  Graphs graphs_;
  OwnStreams own_streams_;

  // Held across the driver calls that change what is mapped, so that what was checked stays true.
  Mutex mapping_mutex_;

  mutable Mutex mutex_;
  Status lost_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<ExtentId, Extent> extents_ ASHLAR_GUARDED_BY(mutex_);
  Handle pool_ ASHLAR_GUARDED_BY(mutex_) = 0;  // made when first asked for
};

// The thread's stay in a device's context.
class Stay {
 public:
  Stay(Driver& driver, int device) : driver_(driver), outcome_(driver.enter(device, entered_)) {}
  ~Stay() {
    if (outcome_.ok()) driver_.leave(entered_);
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

  const Outcome& outcome() const { return outcome_; }

 private:
  Driver& driver_;
  Entered entered_;
  Outcome outcome_;
};

inline const Status& status_in(const Status& status) { return status; }
template <typename T>
const Status& status_in(const Result<T>& result) {
  return result.status();
}

template <typename Body>
auto GpuDevice::call(const Body& body) -> decltype(body()) {
  auto outcome = call_entered(body);
  if (outcome.ok()) return outcome;
  const Status& failure = status_in(outcome);
  if (failure.is(StatusKind::kDeviceLost)) lose(failure);
  last_error_.note(failure);
  return outcome;
}

template <typename Body>
auto GpuDevice::call_on(StreamId stream, const Body& body) -> decltype(body()) {
  return call([&]() -> decltype(body()) {
    if (Status there = check_stream(stream); !there.ok()) return there;
    return body();
  });
}

template <typename Body>
auto GpuDevice::call_entered(const Body& body) -> decltype(body()) {
  if (Status lost = lost_status(); !lost.ok()) return lost;
  if (Status usable = ready(); !usable.ok()) return usable;
  const Stay stay(driver(), ordinal());
  if (!stay.outcome().ok()) return done(stay.outcome());
  return body();
}

}  // namespace ashlar::gpu
