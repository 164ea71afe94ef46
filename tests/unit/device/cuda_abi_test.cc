// SPDX-License-Identifier: Apache-2.0
//
// Compares our declarations of the CUDA driver's binary interface with the vendor's header, if
// CMake finds it: sizes, offsets, values and function types. All checks happen at compile time.
#include "device/cuda/cuda_driver.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <type_traits>

namespace ashlar::gpu::abi {
namespace {

using cuda::kAttributeMemoryPools;
using cuda::kAttributeMulticast;
using cuda::kAttributeRdmaWithVirtualMemory;
using cuda::kAttributeVirtualMemory;

// Returns whether two types have the same ABI: they have the same size, and both are pointers, both
// are classes, or both are integers or enumerations.
template <typename Ours, typename Theirs>
constexpr bool has_same_abi() {
  if constexpr (std::is_pointer_v<Ours>) {
    return std::is_pointer_v<Theirs>;
  } else if constexpr (std::is_class_v<Ours>) {
    return std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs);
  } else {
    return (std::is_integral_v<Theirs> || std::is_enum_v<Theirs>)&&sizeof(Ours) == sizeof(Theirs);
  }
}

template <typename... Ours, typename... Theirs>
constexpr bool alike(const Function<Ours...>&, CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return (has_same_abi<Ours, Theirs>() && ...);
  }
}

static_assert(sizeof(CUresult) == sizeof(int));
static_assert(sizeof(Uuid) == sizeof(CUuuid));
static_assert(sizeof(MemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(offsetof(MemAccessDesc, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(MemAllocationProp) == sizeof(CUmemAllocationProp));
static_assert(offsetof(MemAllocationProp, requested_handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(MemAllocationProp, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(MemAllocationProp, gpu_direct_rdma_capable) ==
              offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
static_assert(sizeof(MemPoolProps) == sizeof(CUmemPoolProps));
static_assert(offsetof(MemPoolProps, location) == offsetof(CUmemPoolProps, location));
static_assert(sizeof(IpcMemHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(MemFabricHandle) == sizeof(CUmemFabricHandle));
static_assert(sizeof(GraphEdgeData) == sizeof(CUgraphEdgeData));

static_assert(kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kAttributeVirtualMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(kAttributeRdmaWithVirtualMemory ==
              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
static_assert(kAttributeMemoryPools == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
static_assert(kAttributeMulticast == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
static_assert(cuda::kMulticastGranularityMinimum == CU_MULTICAST_GRANULARITY_MINIMUM);
static_assert(sizeof(cuda::MulticastObjectProp) == sizeof(CUmulticastObjectProp));
static_assert(offsetof(cuda::MulticastObjectProp, size) == offsetof(CUmulticastObjectProp, size));
static_assert(offsetof(cuda::MulticastObjectProp, handle_types) ==
              offsetof(CUmulticastObjectProp, handleTypes));
static_assert(offsetof(cuda::MulticastObjectProp, flags) == offsetof(CUmulticastObjectProp, flags));
static_assert(kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(kAllocationPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(kHandlePosixFd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kHandleFabric == CU_MEM_HANDLE_TYPE_FABRIC);
static_assert(kGranularityMinimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(kAccessRead == CU_MEM_ACCESS_FLAGS_PROT_READ);
static_assert(kAccessReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kPointerRangeStart == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
static_assert(kPointerRangeSize == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(kMemoryTypeHost == CU_MEMORYTYPE_HOST);
static_assert(kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kHostPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kHostPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kIpcLazyEnablePeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kPoolReleaseThreshold == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
static_assert(kPoolReservedCurrent == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
static_assert(kPoolReservedHigh == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
static_assert(kPoolUsedCurrent == CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
static_assert(kPoolUsedHigh == CU_MEMPOOL_ATTR_USED_MEM_HIGH);
static_assert(kCaptureNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(kCaptureActive == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(kUserObjectNoDestructorSync == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
static_assert(kGraphUserObjectMove == CU_GRAPH_USER_OBJECT_MOVE);

// CaptureMode is passed to the driver without translation, so the values must be equal.
static_assert(static_cast<int>(CaptureMode::kGlobal) == CU_STREAM_CAPTURE_MODE_GLOBAL);
static_assert(static_cast<int>(CaptureMode::kThreadLocal) == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(static_cast<int>(CaptureMode::kRelaxed) == CU_STREAM_CAPTURE_MODE_RELAXED);

constexpr DriverApi kShared;
constexpr cuda::CudaApi kCuda;

static_assert(alike(kShared.device.get_name, cuDeviceGetName));
static_assert(alike(kShared.device.get_uuid, cuDeviceGetUuid));
static_assert(alike(kShared.device.get_pci_bus_id, cuDeviceGetPCIBusId));
static_assert(alike(kShared.device.total_mem, cuDeviceTotalMem));
static_assert(alike(kShared.device.get_attribute, cuDeviceGetAttribute));
static_assert(alike(kCuda.context.retain_primary, cuDevicePrimaryCtxRetain));
static_assert(alike(kCuda.context.release_primary, cuDevicePrimaryCtxRelease));
static_assert(alike(kCuda.context.push_current, cuCtxPushCurrent));
static_assert(alike(kCuda.context.pop_current, cuCtxPopCurrent));
static_assert(alike(kShared.device.get_stream_priority_range, cuCtxGetStreamPriorityRange));
static_assert(alike(kCuda.context.enable_peer_access, cuCtxEnablePeerAccess));
static_assert(alike(kShared.device.can_access_peer, cuDeviceCanAccessPeer));
static_assert(alike(kShared.memory.get_info, cuMemGetInfo));
static_assert(alike(kShared.memory.alloc, cuMemAlloc));
static_assert(alike(kShared.memory.free, cuMemFree));
static_assert(alike(kShared.memory.pointer_get_attributes, cuPointerGetAttributes));
static_assert(alike(kShared.ipc.get_mem_handle, cuIpcGetMemHandle));
static_assert(alike(kShared.ipc.open_mem_handle, cuIpcOpenMemHandle));
static_assert(alike(kShared.host.alloc, cuMemHostAlloc));
static_assert(alike(kShared.host.register_range, cuMemHostRegister));
static_assert(alike(kShared.vmm.get_allocation_granularity, cuMemGetAllocationGranularity));
static_assert(alike(kShared.vmm.address_reserve, cuMemAddressReserve));
static_assert(alike(kShared.vmm.address_free, cuMemAddressFree));
static_assert(alike(kShared.vmm.create, cuMemCreate));
static_assert(alike(kShared.vmm.release, cuMemRelease));
static_assert(alike(kShared.vmm.map, cuMemMap));
static_assert(alike(kShared.vmm.set_access, cuMemSetAccess));
static_assert(alike(kShared.vmm.unmap, cuMemUnmap));
static_assert(alike(kShared.vmm.export_to_shareable_handle, cuMemExportToShareableHandle));
static_assert(alike(kShared.vmm.import_from_shareable_handle, cuMemImportFromShareableHandle));
static_assert(alike(kShared.stream.create_with_priority, cuStreamCreateWithPriority));
static_assert(alike(kShared.stream.wait_event, cuStreamWaitEvent));
static_assert(alike(kShared.event.create, cuEventCreate));
static_assert(alike(kShared.event.record, cuEventRecord));
static_assert(alike(kShared.event.elapsed_time, cuEventElapsedTime));
static_assert(alike(kShared.stream.memcpy_htod_async, cuMemcpyHtoDAsync));
static_assert(alike(kShared.stream.memcpy_dtoh_async, cuMemcpyDtoHAsync));
static_assert(alike(kShared.stream.memcpy_dtod_async, cuMemcpyDtoDAsync));
static_assert(alike(kCuda.memcpy_peer_async, cuMemcpyPeerAsync));
static_assert(alike(kCuda.module.load_data, cuModuleLoadData));
static_assert(alike(kCuda.module.unload, cuModuleUnload));
static_assert(alike(kCuda.module.get_function, cuModuleGetFunction));
static_assert(alike(kCuda.module.launch_kernel, cuLaunchKernel));
static_assert(alike(kCuda.multicast.create, cuMulticastCreate));
static_assert(alike(kCuda.multicast.add_device, cuMulticastAddDevice));
static_assert(alike(kCuda.multicast.bind_mem, cuMulticastBindMem));
static_assert(alike(kCuda.multicast.unbind, cuMulticastUnbind));
static_assert(alike(kCuda.multicast.get_granularity, cuMulticastGetGranularity));
static_assert(alike(kShared.stream.memset_d8_async, cuMemsetD8Async));
static_assert(alike(kShared.stream.launch_host_func, cuLaunchHostFunc));
static_assert(alike(kShared.pool.create, cuMemPoolCreate));
static_assert(alike(kShared.pool.alloc_async, cuMemAllocFromPoolAsync));
static_assert(alike(kShared.pool.free_async, cuMemFreeAsync));
static_assert(alike(kShared.pool.get_attribute, cuMemPoolGetAttribute));
static_assert(alike(kShared.pool.set_attribute, cuMemPoolSetAttribute));
static_assert(alike(kShared.pool.trim_to, cuMemPoolTrimTo));
static_assert(alike(kShared.capture.begin, cuStreamBeginCapture));
static_assert(alike(kShared.capture.end, cuStreamEndCapture));
static_assert(alike(kShared.capture.exchange_thread_mode, cuThreadExchangeStreamCaptureMode));
static_assert(alike(kShared.graph.user_object_create, cuUserObjectCreate));
static_assert(alike(kShared.graph.user_object_release, cuUserObjectRelease));
static_assert(alike(kShared.graph.retain_user_object, cuGraphRetainUserObject));
static_assert(alike(kShared.graph.instantiate_with_flags, cuGraphInstantiateWithFlags));
static_assert(alike(kShared.graph.launch, cuGraphLaunch));
// Since CUDA 13, the names without suffix refer to these versions.
#if CUDA_VERSION >= 13000
static_assert(alike(kShared.capture.get_info_v3, cuStreamGetCaptureInfo));
static_assert(alike(kShared.graph.node_get_dependencies_v2, cuGraphNodeGetDependencies));
#endif

}  // namespace
}  // namespace ashlar::gpu::abi

#else

TEST(CudaAbiTest, DeclarationsMatchTheVendorsHeader) { GTEST_SKIP() << "compiled without cuda.h"; }

#endif
