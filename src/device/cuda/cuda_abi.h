// The part of the CUDA driver's binary interface that we use, declared anew: so that Ashlar builds
// without the vendor's headers, and one binary serves every driver from CUDA 11.4 on. Names of
// types are the vendor's less their prefix; what a value means is in NVIDIA's driver API reference.
// tests/unit/device/cuda_abi_test.cc compares all this with the vendor's header where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/gpu/driver_function.h"

namespace ashlar::cuda {

using Pointer = unsigned long long;             // CUdeviceptr
using AllocationHandle64 = unsigned long long;  // CUmemGenericAllocationHandle
using Context = struct ContextTag*;
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
inline constexpr int kInvalidAddress = 1;  // CUDA_ERROR_INVALID_VALUE, of pointer attributes
inline constexpr int kNoDevice = 100;

inline constexpr int kAttributeVirtualMemory = 102;
inline constexpr int kAttributeRdmaWithVirtualMemory = 110;
inline constexpr int kAttributeMemoryPools = 115;

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
using Function = gpu::DriverFunction<int(Arguments...)>;

// The driver's functions, under their names less the prefix "cu".
struct Api {
  Function<int, const char**> get_error_name;
  Function<int, const char**> get_error_string;
  Function<unsigned> init;
  Function<int*> device_get_count;
  Function<int*, int> device_get;
  Function<char*, int, int> device_get_name;
  Function<Uuid*, int> device_get_uuid;
  Function<char*, int, int> device_get_pci_bus_id;
  Function<size_t*, int> device_total_mem;
  Function<int*, int, int> device_get_attribute;
  Function<Context*, int> device_primary_ctx_retain;
  Function<int> device_primary_ctx_release;
  Function<Context*> ctx_get_current;
  Function<Context> ctx_push_current;
  Function<Context*> ctx_pop_current;
  Function<int*, int*> ctx_get_stream_priority_range;
  Function<> ctx_synchronize;
  Function<Context, unsigned> ctx_enable_peer_access;
  Function<Context> ctx_disable_peer_access;
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
  Function<AllocationHandle64*, size_t, const MemAllocationProp*, unsigned long long> mem_create;
  Function<AllocationHandle64> mem_release;
  Function<Pointer, size_t, size_t, AllocationHandle64, unsigned long long> mem_map;
  Function<Pointer, size_t, const MemAccessDesc*, size_t> mem_set_access;
  Function<Pointer, size_t> mem_unmap;
  Function<void*, AllocationHandle64, int, unsigned long long> mem_export_to_shareable_handle;
  Function<AllocationHandle64*, void*, int> mem_import_from_shareable_handle;

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
  Function<Pointer, Context, Pointer, Context, size_t, Stream> memcpy_peer_async;
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
  // Since CUDA 12.3 with the kinds of edges, without which it refuses graphs that have unusual
  // ones. Exactly one of the two is there; likewise for the dependencies of nodes.
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

// kUnsupported: the library lacks a function; the message names every one that is missing.
Result<Api> find_api(const DriverLibrary& library);

}  // namespace ashlar::cuda
