// SPDX-License-Identifier: Apache-2.0
//
// The driver calls that GpuDevice makes, under vendor-neutral names. common_driver.h implements the
// calls that CUDA and HIP share.
//
// This layer is thin: implementations convert arguments and results, but do not check arguments.
// `StreamId`, `NodeId` and `Handle` hold the driver's handles as integers. Thread safe, like the
// drivers. Unless documented otherwise, a call requires that the thread has entered a device's
// context.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/device.h"
#include "ashlar/devices.h"

namespace ashlar::gpu {

// The result of a driver call: `code` is 0 or the driver's error code. `call` is a string literal:
// the name of the driver's function, or a description of the call if the vendor has no such
// function.
struct DriverResult {
  const char* call = "";
  int code = 0;

  bool ok() const { return code == 0; }
};

using Handle = uint64_t;

// The properties of a device that the driver reports before its context is created.
struct DeviceInfo {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  std::string pci_id;
  size_t total_bytes = 0;
  size_t granularity_bytes = 0;  // 0: no virtual memory
  bool has_stream_ordered_pool = false;
  bool has_rdma = false;  // extents can be created for access by network cards
  // The reason why the device has no multicast; empty if it has multicast.
  std::string multicast_unavailable_reason = "this vendor's driver has no multicast";
};

// The context that was current before enter_context, for leave_context.
struct SavedContext {
  Handle previous = 0;  // HIP only: the previous device. CUDA keeps a stack of contexts.
  bool is_changed = false;
};

// The memory at an address, according to the driver.
struct AddressInfo {
  MemoryKind kind = MemoryKind::kUnknown;
  int device = 0;
  AddressRange range;
};

struct CaptureInfo {
  CaptureStatus status = CaptureStatus::kNone;
  uint64_t id = 0;
  Handle graph = 0;
  std::vector<NodeId> tail;
};

// An object that a graph owns. After the graph has been destroyed and its last launch has finished,
// the driver calls `destroy`, possibly in a thread of its own that must not call the driver.
struct GraphUserObject {
  void* object = nullptr;
  void (*destroy)(void* object) = nullptr;
};

enum class PoolStat { kReserved, kReservedPeak, kUsed, kUsedPeak };

class Driver {
 public:
  virtual ~Driver() = default;

  virtual std::string_view backend() const = 0;
  // Returns the driver's text for an error code, such as "CUDA_ERROR_INVALID_VALUE: invalid
  // argument".
  virtual std::string error_text(int code) const = 0;

  // --- devices; only greatest_priority and memory_stats need a current context

  virtual DriverResult device_count(int& count) = 0;
  virtual DriverResult query_device(int device, DeviceInfo& info) = 0;
  // Retains the primary context of the device until release_context.
  virtual DriverResult retain_context(int device) = 0;
  virtual void release_context(int device) = 0;
  // Makes the device's context current for the calling thread until leave_context.
  virtual DriverResult enter_context(int device, SavedContext& saved) = 0;
  virtual void leave_context(const SavedContext& saved) = 0;
  virtual Result<std::vector<ProcessMemoryUsage>> processes(const DeviceInfo& info) = 0;

  virtual DriverResult greatest_priority(int& priority) = 0;
  virtual DriverResult memory_stats(DeviceMemoryStats& stats) = 0;

  // --- plain memory

  virtual DriverResult allocate(size_t bytes, DeviceAddress& at) = 0;
  virtual DriverResult free(DeviceAddress at) = 0;
  // Queries the memory at an address. Succeeds with kUnknown for an address that is unknown to the
  // driver.
  virtual DriverResult query_address(DeviceAddress at, AddressInfo& info) = 0;
  virtual DriverResult get_ipc_handle(DeviceAddress at, AllocationHandle& handle) = 0;
  virtual DriverResult open_ipc_handle(const AllocationHandle& handle, DeviceAddress& at) = 0;
  virtual DriverResult close_ipc_handle(DeviceAddress at) = 0;

  // --- virtual memory

  struct ReserveRequest {
    size_t bytes = 0;
    size_t alignment_bytes = 0;
    DeviceAddress hint;
  };
  virtual DriverResult reserve(const ReserveRequest& request, DeviceAddress& at) = 0;
  virtual DriverResult free_addresses(AddressRange range) = 0;
  struct CreateRequest {
    int device = 0;
    size_t bytes = 0;
    bool can_export_fd = false;
    bool can_export_fabric = false;
    bool rdma = false;
  };
  virtual DriverResult create(const CreateRequest& request, Handle& extent) = 0;
  virtual DriverResult release(Handle extent) = 0;
  virtual DriverResult map(AddressRange at, Handle extent) = 0;
  virtual DriverResult set_access(AddressRange range, int accessor, Access access) = 0;
  virtual DriverResult unmap(AddressRange range) = 0;
  virtual DriverResult export_fd(Handle extent, int& fd) = 0;
  virtual DriverResult import_fd(int fd, Handle& extent) = 0;
  virtual DriverResult export_fabric(Handle extent, FabricHandle& handle) = 0;
  virtual DriverResult import_fabric(const FabricHandle& handle, Handle& extent) = 0;

  // --- multicast
  // A multicast object combines memory that several devices bind to it. Objects are mapped,
  // exported and released like extents. Binding and mapping block in the driver until all devices
  // have been added.

  struct MulticastRequest {
    int device_count = 0;
    size_t bytes = 0;
    bool can_export_fd = false;
    bool can_export_fabric = false;
  };
  // Queries the granularity of object sizes, bound memory and mapped addresses.
  virtual DriverResult multicast_granularity(const MulticastRequest& request, size_t& bytes) = 0;
  virtual DriverResult create_multicast(const MulticastRequest& request, Handle& object) = 0;
  virtual DriverResult add_to_multicast(Handle object, int device) = 0;
  // Binds the first `bytes` of the extent to the object, at offset 0.
  virtual DriverResult bind_multicast(Handle object, Handle extent, size_t bytes) = 0;
  virtual DriverResult unbind_multicast(Handle object, int device, size_t bytes) = 0;

  // --- peers

  virtual DriverResult can_access_peer(int device, int peer, bool& can_access) = 0;
  // Both functions require that the peer's context is retained. enable_peer_access fails with
  // kPeerAccessAlreadyEnabled if access is already enabled; disable_peer_access fails with
  // kPeerAccessNotEnabled if access is not enabled.
  virtual DriverResult enable_peer_access(int peer) = 0;
  virtual DriverResult disable_peer_access(int peer) = 0;

  // --- pinned host memory

  virtual DriverResult allocate_host(size_t bytes, void*& memory) = 0;
  virtual DriverResult free_host(void* memory) = 0;
  virtual DriverResult register_host(void* memory, size_t bytes) = 0;
  virtual DriverResult unregister_host(void* memory) = 0;

  // --- streams and events

  virtual DriverResult create_stream(int priority, StreamId& stream) = 0;
  virtual DriverResult destroy_stream(StreamId stream) = 0;
  virtual DriverResult query_stream(StreamId stream) = 0;
  virtual DriverResult synchronize_stream(StreamId stream) = 0;
  virtual DriverResult synchronize_device() = 0;
  virtual DriverResult create_event(bool timing, Handle& event) = 0;
  virtual DriverResult destroy_event(Handle event) = 0;
  virtual DriverResult record_event(Handle event, StreamId stream) = 0;
  virtual DriverResult query_event(Handle event) = 0;
  virtual DriverResult synchronize_event(Handle event) = 0;
  virtual DriverResult wait_event(StreamId stream, Handle event) = 0;
  virtual DriverResult elapsed_ms(Handle begin, Handle end, float& ms) = 0;

  // --- work

  virtual DriverResult copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                      StreamId stream) = 0;
  virtual DriverResult copy_to_host(void* to, DeviceAddress from, size_t bytes,
                                    StreamId stream) = 0;
  virtual DriverResult copy(DeviceAddress to, DeviceAddress from, size_t bytes,
                            StreamId stream) = 0;
  struct PeerCopy {
    int to_device = 0;
    DeviceAddress to;
    int from_device = 0;
    DeviceAddress from;
    size_t bytes = 0;
  };
  virtual DriverResult copy_to_peer(const PeerCopy& copy, StreamId stream) = 0;
  virtual DriverResult fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) = 0;
  virtual DriverResult call_host(StreamId stream, void (*function)(void*), void* argument) = 0;

  // --- kernels

  // `image` has the format of the vendor's compiler. The format includes the size of the image.
  virtual DriverResult load_kernels(const void* image, Handle& kernels) = 0;
  virtual DriverResult unload_kernels(Handle kernels) = 0;
  // Finds a kernel by name, and loads the kernel if the driver has a function for this. Otherwise,
  // the driver may load the kernel at its first launch.
  virtual DriverResult find_kernel(Handle kernels, const char* name, Handle& kernel) = 0;
  struct LaunchRequest {
    Handle kernel = 0;
    uint32_t block_count = 1;
    uint32_t thread_count = 1;       // threads per block
    const void* argument = nullptr;  // the kernel's single argument; copied by launch
  };
  virtual DriverResult launch(const LaunchRequest& launch, StreamId stream) = 0;

  // --- the stream-ordered pool

  virtual DriverResult create_pool(int device, Handle& pool) = 0;
  virtual DriverResult destroy_pool(Handle pool) = 0;
  virtual DriverResult allocate_async(size_t bytes, Handle pool, StreamId stream,
                                      DeviceAddress& at) = 0;
  virtual DriverResult free_async(DeviceAddress at, StreamId stream) = 0;
  virtual DriverResult pool_stat(Handle pool, PoolStat stat, uint64_t& bytes) = 0;
  virtual DriverResult reset_pool_peak(Handle pool, PoolStat stat) = 0;
  virtual DriverResult set_pool_threshold(Handle pool, uint64_t bytes) = 0;
  virtual DriverResult trim_pool(Handle pool, size_t keep_bytes) = 0;

  // --- capture

  virtual DriverResult begin_capture(StreamId stream, CaptureMode mode) = 0;
  virtual DriverResult end_capture(StreamId stream, Handle& graph) = 0;
  virtual DriverResult capture_info(StreamId stream, CaptureInfo& info) = 0;
  virtual DriverResult node_dependencies(NodeId node, std::vector<NodeId>& dependencies) = 0;
  virtual DriverResult exchange_capture_mode(CaptureMode& mode) = 0;
  // Transfers ownership of the object to the graph. If the call fails, the object is destroyed.
  virtual DriverResult attach_user_object(Handle graph, const GraphUserObject& object) = 0;
  virtual DriverResult instantiate_graph(Handle graph, Handle& exec) = 0;
  virtual DriverResult launch_graph(Handle exec, StreamId stream) = 0;
  virtual DriverResult destroy_graph_exec(Handle exec) = 0;
  virtual DriverResult destroy_graph(Handle graph) = 0;
};

// Opens the devices of a driver. kUnsupported: the driver could not be initialized, or a query of a
// device failed; the message has the driver's reason.
Result<std::unique_ptr<DeviceSet>> open_devices(std::unique_ptr<Driver> driver);

}  // namespace ashlar::gpu
