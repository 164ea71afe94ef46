// SPDX-License-Identifier: Apache-2.0
//
// Implements `Device` on a vendor's driver (driver.h), and adds two things that the contract
// promises but drivers do not provide: it checks arguments against registries of ids, addresses and
// ranges before it calls the driver (address_registry.h, event_registry.h, graph_registry.h,
// pinned_memory_registry.h, stream_registry.h), and it translates error codes (driver_errors.h).
// docs/internals/gpu_devices.md gives the reasons.
//
// The device uses the process's primary context, shared with the vendor's runtime and other
// libraries, and makes it current for the duration of each call. The context is retained on first
// use, which may be a call of properties(). The constructor does not retain it, because a context
// takes time and memory.
//
// gpu_device.cc implements initialization, plain and pinned memory, the stream-ordered pool and
// kernels; gpu_memory.cc virtual memory, sharing and peers; gpu_work.cc streams, events, work and
// capture. gpu_multicast.h adds multicast. Thread safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ashlar/device.h"
#include "base/fork_guard.h"
#include "base/host_memory.h"
#include "base/mutex.h"
#include "device/gpu/address_registry.h"
#include "device/gpu/driver.h"
#include "device/gpu/event_registry.h"
#include "device/gpu/graph_registry.h"
#include "device/gpu/pinned_memory_registry.h"
#include "device/gpu/stream_registry.h"
#include "device/graph_objects.h"
#include "device/last_error.h"

namespace ashlar::gpu {

class GpuDevice;

// State that the devices of one back end share. It outlives the devices.
struct BackendState {
  BackendState(std::unique_ptr<Driver> chosen, size_t device_count)
      : driver(std::move(chosen)), addresses(device_count) {}

  const std::unique_ptr<Driver> driver;
  AddressRegistry addresses;
  PinnedMemoryRegistry pinned;
  EventRegistry events;
  std::atomic<uint64_t> last_extent{0};  // relaxed: only uniqueness matters
  std::vector<GpuDevice*> devices;       // indexed by device; constant after construction
};

class GpuDevice final : public Device {
 public:
  GpuDevice(BackendState& backend, DeviceIndex index, DeviceInfo info);
  ~GpuDevice() override;
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const DeviceProperties& properties() const override;
  Result<DeviceMemoryStats> memory_stats() override;
  Result<std::vector<ProcessMemoryUsage>> processes() override;
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

  // --- Ashlar's own kernels

  // These functions load, unload, find and launch kernels. kUnsupported: Ashlar has no kernels for
  // this vendor. REQUIRES: `image` outlives the loaded kernels.
  Result<Handle> load_kernels(const void* image);
  Status unload_kernels(Handle kernels);
  Result<Handle> find_kernel(Handle kernels, const char* name);
  Status launch(const Driver::LaunchRequest& launch, StreamId stream);
  // Keeps `object` while the graph that the stream is capturing exists, or a launch of it is in
  // progress. The same holds for graphs that include this graph. Soon afterwards, and at the latest
  // in the destructor of this device, which waits for launches in progress, the object is destroyed
  // in a thread that may call the device (graph_objects.h). If the object is retained already, does
  // nothing. REQUIRES: the object does not own the device. kInvalidArgument: the stream is not
  // capturing, or its capture was invalidated. kDeviceFault: no thread could be started.
  Status retain_in_graph(StreamId stream, std::shared_ptr<const void> object);
  // Returns kInvalidArgument if this device does not have `wanted` access to the whole range.
  Status check_access(AddressRange range, Access wanted);

 private:
  friend class GpuMulticast;
  struct ExtentRecord {
    Handle handle = 0;
    size_t bytes = 0;
    CreateOptions export_options;
    bool is_imported = false;
  };

  // Makes one device call: makes the device's context current, runs `body()`, records a failure as
  // the thread's last error, and marks the device lost on kDeviceLost.
  template <typename Body>
  auto call(const Body& body) -> decltype(body());
  template <typename Body>
  auto call_in_context(const Body& body) -> decltype(body());
  // Like `call`, but rejects destroyed streams first, because a driver may crash on their handles.
  template <typename Body>
  auto call_on_stream(StreamId stream, const Body& body) -> decltype(body());
  Status check_stream(StreamId stream) const;
  bool is_stream_idle(StreamId stream);

  // Initializes the device on the first call. Later calls return the same status.
  Status ensure_open() const;
  Status initialize();
  Status lost_status() const;
  void lose(const Status& reason);

  Driver& driver() const { return *backend_.driver; }
  DeviceIndex index() const { return properties_.index; }
  int ordinal() const { return static_cast<int>(properties_.index.value()); }
  // Translates a driver result; ok if the call succeeded.
  Status to_status(const DriverResult& result) const;
  Status check_capacity(size_t bytes) const;
  Status check_peer(DeviceIndex peer) const;
  Status check_granularity(const char* action, size_t bytes) const;

  Result<AddressRange> reserve_range(size_t bytes, size_t alignment_bytes, DeviceAddress hint);
  Result<ExtentRecord> find_extent(ExtentId id) const;
  ExtentId add_extent(const ExtentRecord& extent);
  // Exports an extent or a multicast object as a close-on-exec descriptor.
  Result<UniqueFd> export_handle_as_fd(Handle shared);
  // Returns kUnsupported if the extent was imported and the driver cannot export it again.
  Status check_exportable(ExtentId id, const ExtentRecord& extent) const;
  // Assigns an id to an imported extent. If the extent cannot be mapped with the expected size,
  // releases it and returns an error.
  Result<ExtentId> add_imported(ExtentRecord imported);
  Status check_maps_with_size(Handle extent, size_t bytes);

  Result<PinnedRange> allocate_pages(size_t bytes);

  // Returns kInvalidArgument if the accessor does not have `wanted` access to the range. For memory
  // that other code allocated, checks only that the driver reports device memory in the whole
  // range.
  Status check_memory(DeviceIndex accessor, AddressRange range, Access wanted);
  Status check_memory(AddressRange range, Access wanted) {
    return check_memory(index(), range, wanted);
  }
  Status check_host_pointer(const void* memory) const;
  Status check_transfer(DeviceIndex to_accessor, DeviceAddress to, DeviceAddress from,
                        size_t bytes);

  Result<CaptureInfo> capture_info(StreamId stream);
  // Adds the graph to the registry if the program ended its capture with the driver's own
  // functions instead of end_capture.
  void find_foreign_graph(GraphId graph);
  Status destroy_captured(GraphId id, CapturedGraph& graph);
  // Returns kUnsupported if the stream is capturing.
  Status check_not_capturing(StreamId stream, const char* action);
  Status call_host_in_capture(StreamId stream, Handle graph, std::function<void()> function);
  Result<Handle> pool();

  BackendState& backend_;
  const DeviceInfo info_;
  const ForkGuard fork_guard_;
  mutable std::once_flag open_once_;
  // These fields are written by the constructor and the first ensure_open(), and constant
  // afterwards.
  DeviceProperties properties_;
  Status open_status_;
  bool is_open_ = false;

  LastError last_error_;
  std::atomic<bool> is_lost_{false};  // stored with release order after lost_ is set
  GraphRegistry graphs_;
  GraphObjectReleaser graph_objects_{*this};
  StreamRegistry streams_;

  // Held from the checks of map, set_access, unmap and free_addresses until their driver calls have
  // finished, so that the checks stay valid.
  Mutex mapping_mutex_;

  mutable Mutex mutex_;
  Status lost_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<ExtentId, ExtentRecord> extents_ ASHLAR_GUARDED_BY(mutex_);
  Handle pool_ ASHLAR_GUARDED_BY(mutex_) = 0;  // created on first use
};

// Makes a device's context current for the calling thread, and restores the previous context when
// destroyed.
class ContextGuard {
 public:
  ContextGuard(Driver& driver, int device)
      : driver_(driver), result_(driver.enter_context(device, saved_)) {}
  ~ContextGuard() {
    if (result_.ok()) driver_.leave_context(saved_);
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

  const DriverResult& result() const { return result_; }

 private:
  Driver& driver_;
  SavedContext saved_;
  DriverResult result_;
};

inline const Status& status_in(const Status& status) { return status; }
template <typename T>
const Status& status_in(const Result<T>& result) {
  return result.status();
}

template <typename Body>
auto GpuDevice::call(const Body& body) -> decltype(body()) {
  auto result = without_bad_alloc([&] { return call_in_context(body); });
  if (result.ok()) return result;
  const Status& failure = status_in(result);
  if (failure.is(StatusKind::kDeviceLost)) lose(failure);
  last_error_.record(failure);
  return result;
}

template <typename Body>
auto GpuDevice::call_on_stream(StreamId stream, const Body& body) -> decltype(body()) {
  return call([&]() -> decltype(body()) {
    if (Status valid = check_stream(stream); !valid.ok()) return valid;
    return body();
  });
}

template <typename Body>
auto GpuDevice::call_in_context(const Body& body) -> decltype(body()) {
  if (Status lost = lost_status(); !lost.ok()) return lost;
  if (Status usable = ensure_open(); !usable.ok()) return usable;
  const ContextGuard context(driver(), ordinal());
  if (!context.result().ok()) return to_status(context.result());
  return body();
}

}  // namespace ashlar::gpu
