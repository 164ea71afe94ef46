// SPDX-License-Identifier: Apache-2.0
//
// Implements driver.h with the functions that CUDA and HIP share (driver_abi.h). cuda/cuda_driver.h
// and hip/hip_driver.h add the functions that differ, such as error text, contexts and peers.
// common_driver.cc implements devices and memory, common_driver_work.cc streams and graphs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/driver_library.h"
#include "device/gpu/driver.h"
#include "device/gpu/driver_abi.h"

namespace ashlar::gpu {

// native() and handle_of() convert between a driver's handle types and `Handle`.
template <typename Native>
Native native(Handle handle) {
  return reinterpret_cast<Native>(static_cast<uintptr_t>(handle));
}

inline abi::Stream native(StreamId stream) { return native<abi::Stream>(stream.value()); }

template <typename Tag>
Handle handle_of(Tag* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

class CommonDriver : public Driver {
 public:
  CommonDriver(DriverLibrary library, const abi::DriverApi& api)
      : library_(std::move(library)), api_(api) {}

  DriverResult device_count(int& count) override;
  // Sets only name, uuid, pci_id and total_bytes; CudaDriver and HipDriver set the other fields.
  DriverResult query_device(int device, DeviceInfo& info) override;
  DriverResult greatest_priority(int& priority) override;
  DriverResult memory_stats(DeviceMemoryStats& stats) override;

  DriverResult allocate(size_t bytes, DeviceAddress& at) override;
  DriverResult free(DeviceAddress at) override;
  // Contrary to the comment in driver.h, this function may fail for an address that is unknown to
  // the driver. CudaDriver and HipDriver override it and ignore that failure.
  DriverResult query_address(DeviceAddress at, AddressInfo& info) override;
  DriverResult get_ipc_handle(DeviceAddress at, AllocationHandle& handle) override;
  DriverResult open_ipc_handle(const AllocationHandle& handle, DeviceAddress& at) override;
  DriverResult close_ipc_handle(DeviceAddress at) override;

  DriverResult reserve(const ReserveRequest& request, DeviceAddress& at) override;
  DriverResult free_addresses(AddressRange range) override;
  DriverResult create(const CreateRequest& request, Handle& extent) override;
  DriverResult release(Handle extent) override;
  DriverResult map(AddressRange at, Handle extent) override;
  DriverResult set_access(AddressRange range, int accessor, Access access) override;
  DriverResult unmap(AddressRange range) override;
  DriverResult export_fd(Handle extent, int& fd) override;
  DriverResult import_fd(int fd, Handle& extent) override;
  DriverResult export_fabric(Handle extent, FabricHandle& handle) override;
  DriverResult import_fabric(const FabricHandle& handle, Handle& extent) override;

  // The multicast functions return kNotSupported. CudaDriver overrides them.
  DriverResult multicast_granularity(const MulticastRequest& request, size_t& bytes) override;
  DriverResult create_multicast(const MulticastRequest& request, Handle& object) override;
  DriverResult add_to_multicast(Handle object, int device) override;
  DriverResult bind_multicast(Handle object, Handle extent, size_t bytes) override;
  DriverResult unbind_multicast(Handle object, int device, size_t bytes) override;

  DriverResult can_access_peer(int device, int peer, bool& can_access) override;

  DriverResult allocate_host(size_t bytes, void*& memory) override;
  DriverResult free_host(void* memory) override;
  DriverResult register_host(void* memory, size_t bytes) override;
  DriverResult unregister_host(void* memory) override;

  DriverResult create_stream(int priority, StreamId& stream) override;
  DriverResult destroy_stream(StreamId stream) override;
  DriverResult query_stream(StreamId stream) override;
  DriverResult synchronize_stream(StreamId stream) override;
  DriverResult synchronize_device() override;
  DriverResult create_event(bool timing, Handle& event) override;
  DriverResult destroy_event(Handle event) override;
  DriverResult record_event(Handle event, StreamId stream) override;
  DriverResult query_event(Handle event) override;
  DriverResult synchronize_event(Handle event) override;
  DriverResult wait_event(StreamId stream, Handle event) override;
  DriverResult elapsed_ms(Handle begin, Handle end, float& ms) override;

  DriverResult copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                              StreamId stream) override;
  DriverResult copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) override;
  DriverResult copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) override;
  DriverResult fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) override;
  DriverResult call_host(StreamId stream, void (*function)(void*), void* argument) override;

  // The kernel functions return kNotSupported. CudaDriver overrides them.
  DriverResult load_kernels(const void* image, Handle& kernels) override;
  DriverResult unload_kernels(Handle kernels) override;
  DriverResult find_kernel(Handle kernels, const char* name, Handle& kernel) override;
  DriverResult launch(const LaunchRequest& launch, StreamId stream) override;

  DriverResult create_pool(int device, Handle& pool) override;
  DriverResult destroy_pool(Handle pool) override;
  DriverResult allocate_async(size_t bytes, Handle pool, StreamId stream,
                              DeviceAddress& at) override;
  DriverResult free_async(DeviceAddress at, StreamId stream) override;
  DriverResult pool_stat(Handle pool, PoolStat stat, uint64_t& bytes) override;
  DriverResult reset_pool_peak(Handle pool, PoolStat stat) override;
  DriverResult set_pool_threshold(Handle pool, uint64_t bytes) override;
  DriverResult trim_pool(Handle pool, size_t keep_bytes) override;

  DriverResult begin_capture(StreamId stream, CaptureMode mode) override;
  DriverResult end_capture(StreamId stream, Handle& graph) override;
  DriverResult capture_info(StreamId stream, CaptureInfo& info) override;
  DriverResult node_dependencies(NodeId node, std::vector<NodeId>& dependencies) override;
  DriverResult exchange_capture_mode(CaptureMode& mode) override;
  DriverResult attach_user_object(Handle graph, const GraphUserObject& object) override;
  DriverResult instantiate_graph(Handle graph, Handle& exec) override;
  DriverResult launch_graph(Handle exec, StreamId stream) override;
  DriverResult destroy_graph_exec(Handle exec) override;
  DriverResult destroy_graph(Handle graph) override;

 protected:
  const abi::DriverApi& api() const { return api_; }
  // Returns "NAME: text" from the driver's error strings, "NAME" if the second string is null, and
  // "error CODE" if the first string is null.
  static std::string format_error(int code, const char* name, const char* explained);
  bool has_attribute(int device, int attribute) const;
  DriverResult granularity(int device, size_t& bytes) const;
  DriverResult import_handle(void* handle, int kind, Handle& extent) const;

 private:
  DriverResult count_dependencies(abi::GraphNode node, size_t& count) const;
  DriverResult read_dependencies(abi::GraphNode node, std::vector<abi::GraphNode>& nodes) const;

  const DriverLibrary library_;
  const abi::DriverApi api_;
};

}  // namespace ashlar::gpu
