// SPDX-License-Identifier: Apache-2.0
//
// The part of the binary interface that the CUDA driver and the HIP runtime share, declared here so
// that Ashlar builds without the vendors' headers and one binary supports all CUDA drivers
// from 11.4 and ROCm from 6.0. HIP uses CUDA's structures and constants; cuda/cuda_driver.h and
// hip/hip_driver.h declare the differences. The names of structures are NVIDIA's without the
// prefix. tests/unit/device/cuda_abi_test.cc compares the declarations with NVIDIA's header, if it
// is installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/gpu/driver_function.h"

namespace ashlar::gpu::abi {

// Addresses and handles of extents are integers in CUDA and pointers in HIP. The supported
// platforms pass both in the same way.
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

// The functions that both drivers have, in one struct per subject. A member is named as in CUDA,
// without the prefix and the subject: `event.create` is cuEventCreate. driver_abi.cc has the full
// names.

// Devices and the current context.
struct DeviceApi {
  Function<unsigned> init;
  Function<int*> get_count;
  Function<char*, int, int> get_name;
  Function<Uuid*, int> get_uuid;
  Function<char*, int, int> get_pci_bus_id;
  Function<size_t*, int> total_mem;
  Function<int*, int, int> get_attribute;
  Function<int*, int*> get_stream_priority_range;
  Function<> synchronize;
  Function<int*, int, int> can_access_peer;
};

// Plain device memory, and queries of memory and addresses.
struct MemoryApi {
  Function<size_t*, size_t*> get_info;
  Function<Pointer*, size_t> alloc;
  Function<Pointer> free;
  Function<unsigned, int*, void**, Pointer> pointer_get_attributes;
};

// Device memory shared with other processes.
struct IpcApi {
  Function<IpcMemHandle*, Pointer> get_mem_handle;
  Function<Pointer*, IpcMemHandle, unsigned> open_mem_handle;
  Function<Pointer> close_mem_handle;
};

// Pinned host memory.
struct HostMemoryApi {
  Function<void**, size_t, unsigned> alloc;
  Function<void*> free;
  Function<void*, size_t, unsigned> register_range;
  Function<void*> unregister_range;
};

// Address ranges, physical memory and mappings. Not loaded if the HIP runtime does not have these
// functions.
struct VirtualMemoryApi {
  Function<size_t*, const MemAllocationProp*, int> get_allocation_granularity;
  Function<Pointer*, size_t, size_t, Pointer, unsigned long long> address_reserve;
  Function<Pointer, size_t> address_free;
  Function<MemHandle*, size_t, const MemAllocationProp*, unsigned long long> create;
  Function<MemHandle> release;
  Function<Pointer, size_t, size_t, MemHandle, unsigned long long> map;
  Function<Pointer, size_t, const MemAccessDesc*, size_t> set_access;
  Function<Pointer, size_t> unmap;
  Function<void*, MemHandle, int, unsigned long long> export_to_shareable_handle;
  Function<MemHandle*, void*, int> import_from_shareable_handle;
};

// Streams and the work in them.
struct StreamApi {
  Function<Stream*, unsigned, int> create_with_priority;
  Function<Stream> destroy;
  Function<Stream> query;
  Function<Stream> synchronize;
  Function<Stream, Event, unsigned> wait_event;
  Function<Stream, HostFunction, void*> launch_host_func;
  Function<Pointer, const void*, size_t, Stream> memcpy_htod_async;
  Function<void*, Pointer, size_t, Stream> memcpy_dtoh_async;
  Function<Pointer, Pointer, size_t, Stream> memcpy_dtod_async;
  Function<Pointer, unsigned char, size_t, Stream> memset_d8_async;
};

struct EventApi {
  Function<Event*, unsigned> create;
  Function<Event> destroy;
  Function<Event, Stream> record;
  Function<Event> query;
  Function<Event> synchronize;
  Function<float*, Event, Event> elapsed_time;
};

// The driver's stream-ordered memory pools.
struct MemoryPoolApi {
  Function<MemoryPool*, const MemPoolProps*> create;
  Function<MemoryPool> destroy;
  Function<Pointer*, size_t, MemoryPool, Stream> alloc_async;
  Function<Pointer, Stream> free_async;
  Function<MemoryPool, int, void*> get_attribute;
  Function<MemoryPool, int, void*> set_attribute;
  Function<MemoryPool, size_t> trim_to;
};

// Stream capture.
struct CaptureApi {
  Function<Stream, int> begin;
  Function<Stream, Graph*> end;
  // CUDA 12.3 added edge data; the older function rejects graphs with non-default edges. Exactly
  // one of the two functions is loaded.
  Function<Stream, int*, uint64_t*, Graph*, const GraphNode**, const GraphEdgeData**, size_t*>
      get_info_v3;
  Function<Stream, int*, uint64_t*, Graph*, const GraphNode**, size_t*> get_info_v2;
  Function<int*> exchange_thread_mode;
};

// Graphs and the user objects that they own.
struct GraphApi {
  // Exactly one of the next two functions is loaded, as in `CaptureApi`.
  Function<GraphNode, GraphNode*, GraphEdgeData*, size_t*> node_get_dependencies_v2;
  Function<GraphNode, GraphNode*, size_t*> node_get_dependencies;
  Function<UserObject*, void*, HostFunction, unsigned, unsigned> user_object_create;
  Function<UserObject, unsigned> user_object_release;
  Function<Graph, UserObject, unsigned, unsigned> retain_user_object;
  Function<GraphExec*, Graph, unsigned long long> instantiate_with_flags;
  Function<GraphExec, Stream> launch;
  Function<GraphExec> exec_destroy;
  Function<Graph> destroy;
};

struct DriverApi {
  DeviceApi device;
  MemoryApi memory;
  IpcApi ipc;
  HostMemoryApi host;
  VirtualMemoryApi vmm;
  StreamApi stream;
  EventApi event;
  MemoryPoolApi pool;
  CaptureApi capture;
  GraphApi graph;
};

// Loads all functions except those of virtual memory.
void load_api(FunctionLoader& loader, DriverApi& api);
// Loads the functions of virtual memory.
void load_virtual_memory(FunctionLoader& loader, DriverApi& api);

}  // namespace ashlar::gpu::abi
