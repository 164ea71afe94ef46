// SPDX-License-Identifier: Apache-2.0
//
// What NVIDIA's and AMD's drivers do in the same way: the neutral functions of driver.h through the
// functions that both have (driver_abi.h), one line each where that is enough. cuda/cuda_driver.h
// and hip/hip_driver.h add what differs: errors as text, contexts, peers, and small habits.
// vendor_driver.cc has devices and memory, vendor_driver_work.cc streams and graphs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "device/driver_library.h"
#include "device/gpu/driver.h"
#include "device/gpu/driver_abi.h"

namespace ashlar::gpu {

class VendorDriver : public Driver {
 public:
  VendorDriver(DriverLibrary library, const abi::Api& api)
      : library_(std::move(library)), api_(api) {}

  Outcome device_count(int& count) override;
  // All but what a device can do.
  Outcome look_at(int device, DeviceFacts& facts) override;
  Outcome greatest_priority(int& priority) override;
  Outcome memory_stats(MemoryStats& use) override;

  Outcome allocate(size_t bytes, DeviceAddress& at) override;
  Outcome free(DeviceAddress at) override;
  // An address that the driver does not know may be a failure.
  Outcome locate(DeviceAddress at, Location& location) override;
  Outcome share(DeviceAddress at, AllocationHandle& handle) override;
  Outcome open_shared(const AllocationHandle& handle, DeviceAddress& at) override;
  Outcome close_shared(DeviceAddress at) override;

  Outcome reserve(const Reserve& wanted, DeviceAddress& at) override;
  Outcome free_addresses(AddressRange range) override;
  Outcome create(const Create& wanted, Handle& extent) override;
  Outcome release(Handle extent) override;
  Outcome map(AddressRange at, Handle extent) override;
  Outcome set_access(AddressRange range, int accessor, Access access) override;
  Outcome unmap(AddressRange range) override;
  Outcome export_fd(Handle extent, int& fd) override;
  Outcome import_fd(int fd, Handle& extent) override;
  Outcome export_fabric(Handle extent, FabricHandle& handle) override;
  Outcome import_fabric(const FabricHandle& handle, Handle& extent) override;

  // Nothing but a refusal: not every vendor has it.
  Outcome multicast_granularity(const Multicast& wanted, size_t& bytes) override;
  Outcome create_multicast(const Multicast& wanted, Handle& object) override;
  Outcome add_to_multicast(Handle object, int device) override;
  Outcome bind_multicast(Handle object, Handle extent, size_t bytes) override;
  Outcome unbind_multicast(Handle object, int device, size_t bytes) override;

  Outcome can_access_peer(int device, int peer, bool& can) override;

  Outcome allocate_host(size_t bytes, void*& memory) override;
  Outcome free_host(void* memory) override;
  Outcome register_host(void* memory, size_t bytes) override;
  Outcome unregister_host(void* memory) override;

  Outcome create_stream(int priority, StreamId& stream) override;
  Outcome destroy_stream(StreamId stream) override;
  Outcome query_stream(StreamId stream) override;
  Outcome synchronize_stream(StreamId stream) override;
  Outcome synchronize_device() override;
  Outcome create_event(bool timing, Handle& event) override;
  Outcome destroy_event(Handle event) override;
  Outcome record_event(Handle event, StreamId stream) override;
  Outcome query_event(Handle event) override;
  Outcome synchronize_event(Handle event) override;
  Outcome wait_event(StreamId stream, Handle event) override;
  Outcome elapsed_ms(Handle begin, Handle end, float& ms) override;

  Outcome copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                         StreamId stream) override;
  Outcome copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) override;
  Outcome copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) override;
  Outcome fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) override;
  Outcome call_host(StreamId stream, void (*function)(void*), void* argument) override;

  // Nothing but a refusal: we have no kernels for every vendor.
  Outcome load_kernels(const void* image, Handle& kernels) override;
  Outcome unload_kernels(Handle kernels) override;
  Outcome find_kernel(Handle kernels, const char* name, Handle& kernel) override;
  Outcome launch(const Launch& launch, StreamId stream) override;

  Outcome create_pool(int device, Handle& pool) override;
  Outcome destroy_pool(Handle pool) override;
  Outcome allocate_async(size_t bytes, Handle pool, StreamId stream, DeviceAddress& at) override;
  Outcome free_async(DeviceAddress at, StreamId stream) override;
  Outcome pool_figure(Handle pool, PoolFigure figure, uint64_t& bytes) override;
  Outcome reset_pool_peak(Handle pool, PoolFigure figure) override;
  Outcome set_pool_threshold(Handle pool, uint64_t bytes) override;
  Outcome trim_pool(Handle pool, size_t keep_bytes) override;

  Outcome begin_capture(StreamId stream, CaptureMode mode) override;
  Outcome end_capture(StreamId stream, Handle& graph) override;
  Outcome capture_facts(StreamId stream, CaptureFacts& facts) override;
  Outcome node_dependencies(NodeId node, std::vector<NodeId>& before) override;
  Outcome exchange_capture_mode(CaptureMode& mode) override;
  Outcome keep_with_graph(Handle graph, const GraphKeepsake& keepsake) override;
  Outcome make_launchable(Handle graph, Handle& launchable) override;
  Outcome launch_graph(Handle launchable, StreamId stream) override;
  Outcome destroy_launchable(Handle launchable) override;
  Outcome destroy_graph(Handle graph) override;

 protected:
  const abi::Api& api() const { return api_; }
  // "NAME: text", from what the driver says, null where it says nothing.
  static std::string in_words(int code, const char* name, const char* explained);
  bool has_attribute(int device, int attribute) const;
  Outcome granularity(int device, size_t& bytes) const;
  Outcome import_handle(void* handle, int kind, Handle& extent) const;

 private:
  Outcome count_dependencies(abi::GraphNode node, size_t& count) const;
  Outcome read_dependencies(abi::GraphNode node, std::vector<abi::GraphNode>& nodes) const;

  const DriverLibrary library_;
  const abi::Api api_;
};

}  // namespace ashlar::gpu
