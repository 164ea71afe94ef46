// SPDX-License-Identifier: Apache-2.0
//
// One simulated device. Implements `Device` on the tables of the machine (machine_impl.h). Every
// DeviceCall goes through a CallInterceptor, which injects faults, fails calls on a lost device and
// adds up modelled cost.
//
// sim_device.cc implements memory and sharing; sim_device_work.cc implements streams, events, work
// and capture. Thread safe.
#pragma once

#include <memory>
#include <unordered_map>

#include "ashlar/device.h"
#include "base/host_memory.h"
#include "base/mutex.h"
#include "device/graph_objects.h"
#include "device/last_error.h"
#include "device/sim/call_interceptor.h"
#include "device/sim/machine_impl.h"
#include "device/sim/physical_memory.h"
#include "device/sim/stream_ordered_pool.h"

namespace ashlar::sim {

class SimDevice final : public Device {
 public:
  // REQUIRES: `machine` and `memory` outlive the device. `memory` belongs to this device alone.
  SimDevice(Machine::Impl& machine, DeviceProperties properties, PhysicalMemory& memory);

  CallInterceptor& interceptor() { return interceptor_; }
  // Marks the device lost. Drops queued work, so that waits for it return, and ends captures.
  void lose(const Status& reason);
  // Queues a kernel. Implements Machine::try_launch.
  Status launch(StreamId stream, std::function<Status()> kernel);
  // Keeps `object` while the graph that the stream is capturing exists, or a launch of it is in
  // progress. The same holds for graphs that include this graph. Soon afterwards, and at the latest
  // in the destructor of the machine, which drops launches in progress, the object is destroyed in
  // a thread that may call the device (graph_objects.h). If the object is retained already, does
  // nothing. REQUIRES: the object does not own the machine. kInvalidArgument: the stream is not
  // capturing, or its capture was invalidated. kDeviceFault: no thread could be started.
  Status retain_in_graph(StreamId stream, std::shared_ptr<const void> object);
  // Destroys all objects that graphs retain. Called by the destructor of the machine, after the
  // streams have stopped.
  void destroy_graph_objects() { graph_objects_.shut_down(); }
  // Returns a host pointer through which kernels of this device access `range`. kUnsupported: the
  // machine has Backing::kBookkeeping.
  Result<void*> view(AddressRange range, Access access);
  // Returns whether the machine has a seed, so that work runs only inside device calls and
  // Machine::step.
  bool runs_in_calls() const { return machine_.options.seed.has_value(); }

  const DeviceProperties& properties() const override { return properties_; }
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

 private:
  // Makes one device call: injects faults and runs `body(size)`, which sets the quantities in
  // `size` that determine the cost. Adds the cost of a successful call, and records a failure as
  // the thread's last error. With a seed, runs up to two tasks after `body`. kHostOutOfMemory:
  // `body` threw std::bad_alloc, before it changed anything.
  template <typename Body>
  auto call(DeviceCall kind, const Body& body) -> decltype(body(std::declval<CallSize&>()));

  // With a seed, runs up to two tasks.
  void run_random_tasks() noexcept;
  DeviceIndex index() const { return properties_.index; }
  Status check_peer(DeviceIndex peer) const;
  Status check_host_pointer(const void* memory) const;

  Result<std::shared_ptr<Extent>> find_extent(ExtentId id) const;
  ExtentId add_extent(std::shared_ptr<Extent> extent);

  // Queues `work` in the stream, or adds it to the stream's capture. If `work` fails when it runs,
  // the device becomes lost.
  Status enqueue(StreamId stream, std::function<Status()> work, int64_t modelled_ns);
  Status transfer(DeviceIndex to_accessor, DeviceAddress to, DeviceAddress from, size_t bytes,
                  StreamId stream);
  void lose_after_work(StreamId stream, const Status& failure) noexcept;
  void drop_work();
  // Blocks the host until the completion is done. kDeviceLost: the device was lost during the wait.
  Status wait_for(const Completion& completion);
  Status check_not_lost() const {
    return interceptor_.is_lost() ? interceptor_.lost_status() : Status();
  }

  Machine::Impl& machine_;
  const DeviceProperties properties_;
  PhysicalMemory& memory_;
  CallInterceptor interceptor_;
  LastError last_error_;
  StreamOrderedPool pool_;
  GraphObjectReleaser graph_objects_{*this};

  mutable Mutex extents_mutex_;
  std::unordered_map<ExtentId, std::shared_ptr<Extent>> extents_ ASHLAR_GUARDED_BY(extents_mutex_);
};

template <typename Body>
auto SimDevice::call(DeviceCall kind, const Body& body)
    -> decltype(body(std::declval<CallSize&>())) {
  using Outcome = decltype(body(std::declval<CallSize&>()));
  const auto status_of = [](const Outcome& outcome) -> const Status& {
    if constexpr (std::is_same_v<Outcome, Status>) {
      return outcome;
    } else {
      return outcome.status();
    }
  };
  // A forked child has none of the machine's threads, and may have inherited its mutexes locked.
  Status forked = machine_.fork_guard.check_not_forked("the simulated device");
  if (!forked.ok()) return forked;
  bool has_entered = false;
  const auto run = [&]() -> Outcome {
    if (Status entered = interceptor_.enter(kind); !entered.ok()) {
      if (entered.is(StatusKind::kDeviceLost)) drop_work();
      return entered;
    }
    has_entered = true;
    CallSize size;
    Outcome outcome = body(size);
    if (outcome.ok()) interceptor_.charge(kind, size);
    return outcome;
  };
  Outcome outcome = without_bad_alloc(run);
  if (!outcome.ok()) last_error_.record(status_of(outcome));
  if (has_entered) run_random_tasks();
  return outcome;
}

}  // namespace ashlar::sim
