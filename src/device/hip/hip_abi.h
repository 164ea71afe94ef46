// The part of the HIP runtime's binary interface that we use, declared anew: so that Ashlar builds
// without ROCm's headers, and one binary serves ROCm from 6.0 on. Names of types are AMD's less
// their prefix; what a value means is in the HIP API reference. Structures and numbers are CUDA's
// wherever HIP has the same thing, and device addresses are pointers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/gpu/driver_function.h"

namespace ashlar::hip {

using Extent = struct HipExtentTag*;  // hipMemGenericAllocationHandle_t
using Stream = struct HipStreamTag*;
using Event = struct HipEventTag*;
using Graph = struct HipGraphTag*;
using GraphNode = struct HipGraphNodeTag*;
using GraphExec = struct HipGraphExecTag*;
using MemPool = struct HipMemPoolTag*;
using UserObject = struct HipUserObjectTag*;
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
  int requested_handle_type;
  MemLocation location;
  void* win32_handle_meta_data;
  unsigned char compression_type;
  unsigned char gpu_direct_rdma_capable;
  unsigned short usage;
};

struct MemAccessDesc {
  MemLocation location;
  int flags;
};

struct MemPoolProps {
  int alloc_type;
  int handle_types;
  MemLocation location;
  void* security_attributes;
  unsigned char reserved[64];
};

struct IpcMemHandle {
  char reserved[64];
};

struct MemFabricHandle {
  unsigned char data[64];
};

inline constexpr int kSuccess = 0;
inline constexpr int kNoDevice = 100;

inline constexpr int kAttributeMemoryPools = 88;

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

// From this version of the runtime on, a descriptor to import is passed itself where a pointer is
// expected; before it, the pointer leads to it.
inline constexpr int kFirstVersionWithFdAsPointer = 70100000;

template <typename... Arguments>
using Function = gpu::DriverFunction<int(Arguments...)>;

// The runtime's functions, under their names less the prefix "hip".
struct Api {
  gpu::DriverFunction<const char*(int)> get_error_name;
  gpu::DriverFunction<const char*(int)> get_error_string;
  Function<> get_last_error;
  Function<unsigned> init;
  Function<int*> runtime_get_version;
  Function<int*> get_device_count;
  Function<int*> get_device;
  Function<int> set_device;
  Function<char*, int, int> device_get_name;
  Function<Uuid*, int> device_get_uuid;
  Function<char*, int, int> device_get_pci_bus_id;
  Function<size_t*, int> device_total_mem;
  Function<int*, int, int> device_get_attribute;
  Function<int*, int*> device_get_stream_priority_range;
  Function<> device_synchronize;
  Function<int*, int, int> device_can_access_peer;
  Function<int, unsigned> device_enable_peer_access;
  Function<int> device_disable_peer_access;

  Function<size_t*, size_t*> mem_get_info;
  Function<void**, size_t> malloc;
  Function<void*> free;
  Function<unsigned, int*, void**, void*> drv_pointer_get_attributes;
  Function<IpcMemHandle*, void*> ipc_get_mem_handle;
  Function<void**, IpcMemHandle, unsigned> ipc_open_mem_handle;
  Function<void*> ipc_close_mem_handle;
  Function<void**, size_t, unsigned> host_malloc;
  Function<void*> host_free;
  Function<void*, size_t, unsigned> host_register;
  Function<void*> host_unregister;

  // Not there before virtual memory was: then the device has none.
  Function<size_t*, const MemAllocationProp*, int> mem_get_allocation_granularity;
  Function<void**, size_t, size_t, void*, unsigned long long> mem_address_reserve;
  Function<void*, size_t> mem_address_free;
  Function<Extent*, size_t, const MemAllocationProp*, unsigned long long> mem_create;
  Function<Extent> mem_release;
  Function<void*, size_t, size_t, Extent, unsigned long long> mem_map;
  Function<void*, size_t, const MemAccessDesc*, size_t> mem_set_access;
  Function<void*, size_t> mem_unmap;
  Function<void*, Extent, int, unsigned long long> mem_export_to_shareable_handle;
  Function<Extent*, void*, int> mem_import_from_shareable_handle;

  Function<Stream*, unsigned, int> stream_create_with_priority;
  Function<Stream> stream_destroy;
  Function<Stream> stream_query;
  Function<Stream> stream_synchronize;
  Function<Stream, Event, unsigned> stream_wait_event;
  Function<Event*, unsigned> event_create_with_flags;
  Function<Event> event_destroy;
  Function<Event, Stream> event_record;
  Function<Event> event_query;
  Function<Event> event_synchronize;
  Function<float*, Event, Event> event_elapsed_time;

  Function<void*, const void*, size_t, Stream> memcpy_htod_async;
  Function<void*, void*, size_t, Stream> memcpy_dtoh_async;
  Function<void*, void*, size_t, Stream> memcpy_dtod_async;
  Function<void*, int, const void*, int, size_t, Stream> memcpy_peer_async;
  Function<void*, unsigned char, size_t, Stream> memset_d8_async;
  Function<Stream, HostFunction, void*> launch_host_func;

  Function<MemPool*, const MemPoolProps*> mem_pool_create;
  Function<MemPool> mem_pool_destroy;
  Function<void**, size_t, MemPool, Stream> malloc_from_pool_async;
  Function<void*, Stream> free_async;
  Function<MemPool, int, void*> mem_pool_get_attribute;
  Function<MemPool, int, void*> mem_pool_set_attribute;
  Function<MemPool, size_t> mem_pool_trim_to;

  Function<Stream, int> stream_begin_capture;
  Function<Stream, Graph*> stream_end_capture;
  Function<Stream, int*, unsigned long long*, Graph*, const GraphNode**, size_t*>
      stream_get_capture_info;
  Function<GraphNode, GraphNode*, size_t*> graph_node_get_dependencies;
  Function<int*> thread_exchange_stream_capture_mode;
  Function<UserObject*, void*, HostFunction, unsigned, unsigned> user_object_create;
  Function<UserObject, unsigned> user_object_release;
  Function<Graph, UserObject, unsigned, unsigned> graph_retain_user_object;
  Function<GraphExec*, Graph, unsigned long long> graph_instantiate_with_flags;
  Function<GraphExec, Stream> graph_launch;
  Function<GraphExec> graph_exec_destroy;
  Function<Graph> graph_destroy;

  bool has_virtual_memory() const { return mem_import_from_shareable_handle.is_there(); }
};

// kUnsupported: the library lacks a function; the message names every one that is missing.
Result<Api> find_api(const DriverLibrary& library);

}  // namespace ashlar::hip
