// SPDX-License-Identifier: Apache-2.0
//
// The part of the binary interface that the CUDA driver and the HIP runtime share, declared here so
// that Ashlar builds without the vendors' headers and one binary supports all CUDA drivers
// from 11.4 and ROCm from 6.0. HIP uses CUDA's structures and constants; cuda/cuda_driver.h and
// hip/hip_driver.h declare the differences. Type names are NVIDIA's without the prefix.
// tests/unit/device/cuda_abi_test.cc compares the declarations with NVIDIA's header, if installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/gpu/driver_function.h"

namespace ashlar::gpu::abi {

// Integers in CUDA, pointers in HIP. Both are passed in the same way on supported platforms.
using Pointer = unsigned long long;    // CUdeviceptr, hipDeviceptr_t
using MemHandle = unsigned long long;  // CUmemGenericAllocationHandle
static_assert(sizeof(Pointer) == sizeof(void*));

using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphNode = struct GraphNodeTag*;
using GraphExec = struct GraphExecTag*;
using MemoryPool = struct MemoryPoolTag*;
using UserObject = struct UserObjectTag*;
using HostFunction = void (*)(void*);

struct Uuid {
  char bytes[16];
};

struct MemLocation {
  int type;
  int id;
};

struct MemAllocationProp {
  int type;
  int requested_handle_types;
  MemLocation location;
  void* win32_handle_meta_data;
  unsigned char compression_type;
  unsigned char gpu_direct_rdma_capable;
  unsigned short usage;
  unsigned char reserved[4];
};

struct MemAccessDesc {
  MemLocation location;
  int flags;
};

struct MemPoolProps {
  int alloc_type;
  int handle_types;
  MemLocation location;
  void* win32_security_attributes;
  size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};

struct IpcMemHandle {
  char reserved[64];
};

struct MemFabricHandle {
  unsigned char data[64];
};

struct GraphEdgeData {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};

inline constexpr int kSuccess = 0;
inline constexpr int kNoDevice = 100;

inline constexpr int kLocationDevice = 1;
inline constexpr int kAllocationPinned = 1;
inline constexpr int kHandlePosixFd = 1;
inline constexpr int kHandleFabric = 8;
inline constexpr int kGranularityMinimum = 0;
inline constexpr int kAccessNone = 0;
inline constexpr int kAccessRead = 1;
inline constexpr int kAccessReadWrite = 3;

inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr int kPointerRangeStart = 11;
inline constexpr int kPointerRangeSize = 12;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;

inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kIpcLazyEnablePeerAccess = 1;

inline constexpr int kPoolReleaseThreshold = 4;
inline constexpr int kPoolReservedCurrent = 5;
inline constexpr int kPoolReservedHigh = 6;
inline constexpr int kPoolUsedCurrent = 7;
inline constexpr int kPoolUsedHigh = 8;

inline constexpr int kCaptureNone = 0;
inline constexpr int kCaptureActive = 1;
inline constexpr unsigned kUserObjectNoDestructorSync = 1;
inline constexpr unsigned kGraphUserObjectMove = 1;

template <typename... Arguments>
using Function = DriverFunction<int(Arguments...)>;

// The functions that both drivers have, under CUDA's names without the prefix. driver_abi.cc has
// the full names.
struct Api {
  Function<unsigned> init;
  Function<int*> device_get_count;
  Function<char*, int, int> device_get_name;
  Function<Uuid*, int> device_get_uuid;
  Function<char*, int, int> device_get_pci_bus_id;
  Function<size_t*, int> device_total_mem;
  Function<int*, int, int> device_get_attribute;
  Function<int*, int*> get_stream_priority_range;
  Function<> synchronize;
  Function<int*, int, int> device_can_access_peer;

  Function<size_t*, size_t*> mem_get_info;
  Function<Pointer*, size_t> mem_alloc;
  Function<Pointer> mem_free;
  Function<unsigned, int*, void**, Pointer> pointer_get_attributes;
  Function<IpcMemHandle*, Pointer> ipc_get_mem_handle;
  Function<Pointer*, IpcMemHandle, unsigned> ipc_open_mem_handle;
  Function<Pointer> ipc_close_mem_handle;
  Function<void**, size_t, unsigned> mem_host_alloc;
  Function<void*> mem_free_host;
  Function<void*, size_t, unsigned> mem_host_register;
  Function<void*> mem_host_unregister;

  Function<size_t*, const MemAllocationProp*, int> mem_get_allocation_granularity;
  Function<Pointer*, size_t, size_t, Pointer, unsigned long long> mem_address_reserve;
  Function<Pointer, size_t> mem_address_free;
  Function<MemHandle*, size_t, const MemAllocationProp*, unsigned long long> mem_create;
  Function<MemHandle> mem_release;
  Function<Pointer, size_t, size_t, MemHandle, unsigned long long> mem_map;
  Function<Pointer, size_t, const MemAccessDesc*, size_t> mem_set_access;
  Function<Pointer, size_t> mem_unmap;
  Function<void*, MemHandle, int, unsigned long long> mem_export_to_shareable_handle;
  Function<MemHandle*, void*, int> mem_import_from_shareable_handle;

  Function<Stream*, unsigned, int> stream_create_with_priority;
  Function<Stream> stream_destroy;
  Function<Stream> stream_query;
  Function<Stream> stream_synchronize;
  Function<Stream, Event, unsigned> stream_wait_event;
  Function<Event*, unsigned> event_create;
  Function<Event> event_destroy;
  Function<Event, Stream> event_record;
  Function<Event> event_query;
  Function<Event> event_synchronize;
  Function<float*, Event, Event> event_elapsed_time;

  Function<Pointer, const void*, size_t, Stream> memcpy_htod_async;
  Function<void*, Pointer, size_t, Stream> memcpy_dtoh_async;
  Function<Pointer, Pointer, size_t, Stream> memcpy_dtod_async;
  Function<Pointer, unsigned char, size_t, Stream> memset_d8_async;
  Function<Stream, HostFunction, void*> launch_host_func;

  Function<MemoryPool*, const MemPoolProps*> mem_pool_create;
  Function<MemoryPool> mem_pool_destroy;
  Function<Pointer*, size_t, MemoryPool, Stream> mem_alloc_from_pool_async;
  Function<Pointer, Stream> mem_free_async;
  Function<MemoryPool, int, void*> mem_pool_get_attribute;
  Function<MemoryPool, int, void*> mem_pool_set_attribute;
  Function<MemoryPool, size_t> mem_pool_trim_to;

  Function<Stream, int> stream_begin_capture;
  Function<Stream, Graph*> stream_end_capture;
  // CUDA 12.3 added edge data; the older function rejects graphs with non-default edges. Exactly
  // one of the two is loaded. The same applies to node dependencies.
  Function<Stream, int*, uint64_t*, Graph*, const GraphNode**, const GraphEdgeData**, size_t*>
      stream_get_capture_info_v3;
  Function<Stream, int*, uint64_t*, Graph*, const GraphNode**, size_t*> stream_get_capture_info_v2;
  Function<GraphNode, GraphNode*, GraphEdgeData*, size_t*> graph_node_get_dependencies_v2;
  Function<GraphNode, GraphNode*, size_t*> graph_node_get_dependencies;
  Function<int*> thread_exchange_stream_capture_mode;
  Function<UserObject*, void*, HostFunction, unsigned, unsigned> user_object_create;
  Function<UserObject, unsigned> user_object_release;
  Function<Graph, UserObject, unsigned, unsigned> graph_retain_user_object;
  Function<GraphExec*, Graph, unsigned long long> graph_instantiate_with_flags;
  Function<GraphExec, Stream> graph_launch;
  Function<GraphExec> graph_exec_destroy;
  Function<Graph> graph_destroy;
};

// Load all required functions except virtual memory, and those of virtual memory.
void load_api(FunctionLoader& loader, Api& api);
void load_virtual_memory(FunctionLoader& loader, Api& api);

}  // namespace ashlar::gpu::abi
