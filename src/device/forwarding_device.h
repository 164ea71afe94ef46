// SPDX-License-Identifier: Apache-2.0
//
// Forwards every call to another device. This is the base class of devices that override a few
// functions, such as PresentedDevice. If `Device` gains a pure virtual function, users of this
// class do not compile until the function is added here. Thread safe.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "ashlar/device.h"

namespace ashlar {

class ForwardingDevice : public Device {
 public:
  // `device` outlives this object. The constructor does not call it, because the first call may
  // initialize the device.
  explicit ForwardingDevice(Device& device) : device_(device) {}

  const DeviceProperties& properties() const override { return device_.properties(); }
  Result<DeviceMemoryStats> memory_stats() override { return device_.memory_stats(); }
  Result<std::vector<ProcessMemoryUsage>> processes() override { return device_.processes(); }
  Status last_error() override { return device_.last_error(); }
  Status take_last_error() override { return device_.take_last_error(); }

  Result<DeviceAddress> allocate(size_t bytes) override { return device_.allocate(bytes); }
  Status free(DeviceAddress address) override { return device_.free(address); }
  Result<AddressDescription> describe(DeviceAddress address) override {
    return device_.describe(address);
  }

  Result<DeviceAddress> reserve(size_t bytes, const ReserveOptions& options) override {
    return device_.reserve(bytes, options);
  }
  Status free_addresses(AddressRange range) override { return device_.free_addresses(range); }
  Result<ExtentId> create(size_t bytes, const CreateOptions& options) override {
    return device_.create(bytes, options);
  }
  Status release(ExtentId extent) override { return device_.release(extent); }
  Status map(DeviceAddress at, ExtentId extent) override { return device_.map(at, extent); }
  Status set_access(AddressRange range, DeviceIndex accessor, Access access) override {
    return device_.set_access(range, accessor, access);
  }
  Status unmap(AddressRange range) override { return device_.unmap(range); }

  Result<UniqueFd> export_fd(ExtentId extent) override { return device_.export_fd(extent); }
  Result<ExtentId> import_fd(int fd, size_t bytes) override { return device_.import_fd(fd, bytes); }
  Result<FabricHandle> export_fabric(ExtentId extent) override {
    return device_.export_fabric(extent);
  }
  Result<ExtentId> import_fabric(const FabricHandle& handle, size_t bytes) override {
    return device_.import_fabric(handle, bytes);
  }
  Result<AllocationHandle> share_allocation(DeviceAddress address) override {
    return device_.share_allocation(address);
  }
  Result<DeviceAddress> open_allocation(const AllocationHandle& handle) override {
    return device_.open_allocation(handle);
  }
  Status close_allocation(DeviceAddress address) override {
    return device_.close_allocation(address);
  }

  Result<bool> can_access_peer(DeviceIndex peer) override { return device_.can_access_peer(peer); }
  Status enable_peer_access(DeviceIndex peer) override { return device_.enable_peer_access(peer); }
  Status disable_peer_access(DeviceIndex peer) override {
    return device_.disable_peer_access(peer);
  }

  Result<void*> allocate_host(size_t bytes) override { return device_.allocate_host(bytes); }
  Status free_host(void* memory) override { return device_.free_host(memory); }
  Status register_host(void* memory, size_t bytes) override {
    return device_.register_host(memory, bytes);
  }
  Status unregister_host(void* memory) override { return device_.unregister_host(memory); }

  Result<StreamId> create_stream(const StreamOptions& options) override {
    return device_.create_stream(options);
  }
  Status destroy_stream(StreamId stream) override { return device_.destroy_stream(stream); }
  Result<bool> is_idle(StreamId stream) override { return device_.is_idle(stream); }
  Status synchronize_stream(StreamId stream) override { return device_.synchronize_stream(stream); }
  Status synchronize_device() override { return device_.synchronize_device(); }

  Result<EventId> create_event(const EventOptions& options) override {
    return device_.create_event(options);
  }
  Status destroy_event(EventId event) override { return device_.destroy_event(event); }
  Status record_event(EventId event, StreamId stream) override {
    return device_.record_event(event, stream);
  }
  Result<bool> is_done(EventId event) override { return device_.is_done(event); }
  Status synchronize_event(EventId event) override { return device_.synchronize_event(event); }
  Status wait_event(StreamId stream, EventId event) override {
    return device_.wait_event(stream, event);
  }
  Result<double> elapsed_ms(EventId begin, EventId end) override {
    return device_.elapsed_ms(begin, end);
  }

  Status copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                        StreamId stream) override {
    return device_.copy_to_device(to, from, bytes, stream);
  }
  Status copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) override {
    return device_.copy_to_host(to, from, bytes, stream);
  }
  Status copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) override {
    return device_.copy(to, from, bytes, stream);
  }
  Status copy_to_peer(DeviceIndex peer, DeviceAddress to, DeviceAddress from, size_t bytes,
                      StreamId stream) override {
    return device_.copy_to_peer(peer, to, from, bytes, stream);
  }
  Status fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) override {
    return device_.fill(at, value, bytes, stream);
  }
  Status call_host(StreamId stream, std::function<void()> function) override {
    return device_.call_host(stream, std::move(function));
  }

  Result<DeviceAddress> allocate_async(size_t bytes, StreamId stream) override {
    return device_.allocate_async(bytes, stream);
  }
  Status free_async(DeviceAddress address, StreamId stream) override {
    return device_.free_async(address, stream);
  }
  Result<DriverPoolStats> driver_pool_stats() override { return device_.driver_pool_stats(); }
  Status reset_pool_peaks() override { return device_.reset_pool_peaks(); }
  Status set_pool_threshold(size_t keep_bytes) override {
    return device_.set_pool_threshold(keep_bytes);
  }
  Status trim_pool(size_t keep_bytes) override { return device_.trim_pool(keep_bytes); }

  Status begin_capture(StreamId stream, CaptureMode mode) override {
    return device_.begin_capture(stream, mode);
  }
  Result<GraphId> end_capture(StreamId stream) override { return device_.end_capture(stream); }
  Result<CaptureState> capture_state(StreamId stream) override {
    return device_.capture_state(stream);
  }
  Result<std::vector<NodeId>> node_dependencies(NodeId node) override {
    return device_.node_dependencies(node);
  }
  Result<CaptureMode> exchange_capture_mode(CaptureMode mode) override {
    return device_.exchange_capture_mode(mode);
  }
  Status launch_graph(GraphId graph, StreamId stream) override {
    return device_.launch_graph(graph, stream);
  }
  Status destroy_graph(GraphId graph) override { return device_.destroy_graph(graph); }

 protected:
  Device& device() const { return device_; }

 private:
  Device& device_;
};

}  // namespace ashlar
