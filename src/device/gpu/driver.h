// SPDX-License-Identifier: Apache-2.0
//
// What the shared logic (gpu_device.h) asks of a vendor's driver: one function for each driver call
// it makes, under a neutral name. vendor_driver.h answers for the calls that vendors have in
// common.
//
// Nothing is decided here: arguments go to the driver as they are, its answer comes back as it is.
// Streams, events, graphs and nodes are the driver's own handles, as numbers. Thread safe, as
// drivers are. Unless said otherwise, a call needs a device that the thread has entered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/device.h"

namespace ashlar::gpu {

// How a driver call ended: 0, or the driver's number for why not. `call` is the driver's own name
// of it, a literal.
struct Outcome {
  const char* call = "";
  int code = 0;

  bool ok() const { return code == 0; }
};

using Handle = uint64_t;

// What a driver tells of a device before anybody has used it.
struct DeviceFacts {
  std::string name;
  std::array<uint8_t, 16> uuid{};
  std::string pci_id;
  size_t total_bytes = 0;
  size_t granularity_bytes = 0;  // 0: no virtual memory
  bool has_stream_pool = false;
  bool has_rdma = false;  // network cards can reach extents that were created for it
  std::string no_multicast = "this vendor's driver has none";  // why; empty: it has
};

// What the calling thread had entered before, for leaving again.
struct Entered {
  Handle before = 0;
  bool is_changed = false;
};

// Where an address lies, for memory that this process got elsewhere than here.
struct Location {
  MemoryKind kind = MemoryKind::kUnknown;
  int device = 0;
  AddressRange range;
};

struct CaptureFacts {
  CaptureStatus status = CaptureStatus::kNone;
  uint64_t id = 0;
  Handle graph = 0;
  std::vector<NodeId> tail;
};

// What a graph's host functions need until neither the graph nor a launch of it is left.
struct GraphKeepsake {
  void* thing = nullptr;
  void (*drop)(void* thing) = nullptr;
};

enum class PoolFigure { kReserved, kReservedPeak, kUsed, kUsedPeak };

class Driver {
 public:
  virtual ~Driver() = default;

  virtual std::string_view backend() const = 0;
  // "CUDA_ERROR_INVALID_VALUE: invalid argument".
  virtual std::string error_text(int code) const = 0;

  // --- devices; no device needs to be entered -----------------------------------------------

  virtual Outcome device_count(int& count) = 0;
  virtual Outcome look_at(int device, DeviceFacts& facts) = 0;
  // Takes part in the context that the whole process uses for the device, until `leave_for_good`.
  virtual Outcome use(int device) = 0;
  virtual void leave_for_good(int device) = 0;
  // Makes the device the calling thread's own, until `leave`.
  virtual Outcome enter(int device, Entered& entered) = 0;
  virtual void leave(const Entered& entered) = 0;
  virtual Result<std::vector<ProcessUse>> processes(const DeviceFacts& facts) = 0;

  virtual Outcome greatest_priority(int& priority) = 0;
  virtual Outcome memory_stats(MemoryStats& use) = 0;

  // --- plain memory ---------------------------------------------------------------------------

  virtual Outcome allocate(size_t bytes, DeviceAddress& at) = 0;
  virtual Outcome free(DeviceAddress at) = 0;
  // An address that the driver does not know is no failure.
  virtual Outcome locate(DeviceAddress at, Location& location) = 0;
  virtual Outcome share(DeviceAddress at, AllocationHandle& handle) = 0;
  virtual Outcome open_shared(const AllocationHandle& handle, DeviceAddress& at) = 0;
  virtual Outcome close_shared(DeviceAddress at) = 0;

  // --- virtual memory -------------------------------------------------------------------------

  struct Reserve {
    size_t bytes = 0;
    size_t alignment_bytes = 0;
    DeviceAddress hint;
  };
  virtual Outcome reserve(const Reserve& wanted, DeviceAddress& at) = 0;
  virtual Outcome free_addresses(AddressRange range) = 0;
  struct Create {
    int device = 0;
    size_t bytes = 0;
    bool export_fd = false;
    bool export_fabric = false;
    bool rdma = false;
  };
  virtual Outcome create(const Create& wanted, Handle& extent) = 0;
  virtual Outcome release(Handle extent) = 0;
  virtual Outcome map(AddressRange at, Handle extent) = 0;
  virtual Outcome set_access(AddressRange range, int accessor, Access access) = 0;
  virtual Outcome unmap(AddressRange range) = 0;
  virtual Outcome export_fd(Handle extent, int& fd) = 0;
  virtual Outcome import_fd(int fd, Handle& extent) = 0;
  virtual Outcome export_fabric(Handle extent, FabricHandle& handle) = 0;
  virtual Outcome import_fabric(const FabricHandle& handle, Handle& extent) = 0;

  // --- multicast --------------------------------------------------------------------------------
  // Objects that several devices bind memory to. They are mapped, shared and released as extents
  // are. Binding and mapping wait in the driver until all devices were added.

  struct Multicast {
    int device_count = 0;
    size_t bytes = 0;
    bool export_fd = false;
    bool export_fabric = false;
  };
  // Of sizes and addresses.
  virtual Outcome multicast_granularity(const Multicast& wanted, size_t& bytes) = 0;
  virtual Outcome create_multicast(const Multicast& wanted, Handle& object) = 0;
  virtual Outcome add_to_multicast(Handle object, int device) = 0;
  // The extent's first bytes, at the object's beginning.
  virtual Outcome bind_multicast(Handle object, Handle extent, size_t bytes) = 0;
  virtual Outcome unbind_multicast(Handle object, int device, size_t bytes) = 0;

  // --- peers ------------------------------------------------------------------------------------

  virtual Outcome can_access_peer(int device, int peer, bool& can) = 0;
  // The peer is in use. Both may end with "it is so already".
  virtual Outcome enable_peer_access(int peer) = 0;
  virtual Outcome disable_peer_access(int peer) = 0;

  // --- pinned host memory -----------------------------------------------------------------------

  virtual Outcome allocate_host(size_t bytes, void*& memory) = 0;
  virtual Outcome free_host(void* memory) = 0;
  virtual Outcome register_host(void* memory, size_t bytes) = 0;
  virtual Outcome unregister_host(void* memory) = 0;

  // --- streams and events -----------------------------------------------------------------------

  virtual Outcome create_stream(int priority, StreamId& stream) = 0;
  virtual Outcome destroy_stream(StreamId stream) = 0;
  virtual Outcome query_stream(StreamId stream) = 0;
  virtual Outcome synchronize_stream(StreamId stream) = 0;
  virtual Outcome synchronize_device() = 0;
  virtual Outcome create_event(bool timing, Handle& event) = 0;
  virtual Outcome destroy_event(Handle event) = 0;
  virtual Outcome record_event(Handle event, StreamId stream) = 0;
  virtual Outcome query_event(Handle event) = 0;
  virtual Outcome synchronize_event(Handle event) = 0;
  virtual Outcome wait_event(StreamId stream, Handle event) = 0;
  virtual Outcome elapsed_ms(Handle begin, Handle end, float& ms) = 0;

  // --- work -------------------------------------------------------------------------------------

  virtual Outcome copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                 StreamId stream) = 0;
  virtual Outcome copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) = 0;
  virtual Outcome copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) = 0;
  struct PeerCopy {
    int to_device = 0;
    DeviceAddress to;
    int from_device = 0;
    DeviceAddress from;
    size_t bytes = 0;
  };
  virtual Outcome copy_to_peer(const PeerCopy& copy, StreamId stream) = 0;
  virtual Outcome fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) = 0;
  virtual Outcome call_host(StreamId stream, void (*function)(void*), void* argument) = 0;

  // --- kernels ----------------------------------------------------------------------------------

  // An image as the vendor's compiler makes it, which ends by itself or knows its size.
  virtual Outcome load_kernels(const void* image, Handle& kernels) = 0;
  virtual Outcome unload_kernels(Handle kernels) = 0;
  // `name` ends with a zero. Whatever a first launch would have to do is done.
  virtual Outcome find_kernel(Handle kernels, const char* name, Handle& kernel) = 0;
  struct Launch {
    Handle kernel = 0;
    uint32_t block_count = 1;
    uint32_t thread_count = 1;       // of each block
    const void* argument = nullptr;  // the kernel's one; copied before `launch` returns
  };
  virtual Outcome launch(const Launch& launch, StreamId stream) = 0;

  // --- the stream-ordered pool ------------------------------------------------------------------

  virtual Outcome create_pool(int device, Handle& pool) = 0;
  virtual Outcome destroy_pool(Handle pool) = 0;
  virtual Outcome allocate_async(size_t bytes, Handle pool, StreamId stream, DeviceAddress& at) = 0;
  virtual Outcome free_async(DeviceAddress at, StreamId stream) = 0;
  virtual Outcome pool_figure(Handle pool, PoolFigure figure, uint64_t& bytes) = 0;
  virtual Outcome reset_pool_peak(Handle pool, PoolFigure figure) = 0;
  virtual Outcome set_pool_threshold(Handle pool, uint64_t bytes) = 0;
  virtual Outcome trim_pool(Handle pool, size_t keep_bytes) = 0;

  // --- capture ----------------------------------------------------------------------------------

  virtual Outcome begin_capture(StreamId stream, CaptureMode mode) = 0;
  virtual Outcome end_capture(StreamId stream, Handle& graph) = 0;
  virtual Outcome capture_facts(StreamId stream, CaptureFacts& facts) = 0;
  virtual Outcome node_dependencies(NodeId node, std::vector<NodeId>& before) = 0;
  virtual Outcome exchange_capture_mode(CaptureMode& mode) = 0;
  // From here on the driver's to drop, also when this fails.
  virtual Outcome keep_with_graph(Handle graph, const GraphKeepsake& keepsake) = 0;
  virtual Outcome make_launchable(Handle graph, Handle& launchable) = 0;
  virtual Outcome launch_graph(Handle launchable, StreamId stream) = 0;
  virtual Outcome destroy_launchable(Handle launchable) = 0;
  virtual Outcome destroy_graph(Handle graph) = 0;
};

}  // namespace ashlar::gpu
