// SPDX-License-Identifier: Apache-2.0
//
// The names of the functions, CUDA's and HIP's; the finder takes those of its vendor. A suffix
// fixes the binary interface for good: a driver keeps old versions beside the new, so asking for
// the one that was declared is enough, and nothing depends on which version a plain name stands for
// (docs/design/gpu_devices.md).
#include "device/gpu/driver_abi.h"

namespace ashlar::gpu::abi {
namespace {

void find_devices(FunctionFinder& finder, Api& api) {
  finder.need(api.init, {"cuInit", "hipInit"});
  finder.need(api.device_get_count, {"cuDeviceGetCount", "hipGetDeviceCount"});
  finder.need(api.device_get_name, {"cuDeviceGetName", "hipDeviceGetName"});
  // The second version knows the parts of a partitioned device; CUDA 11.4.
  finder.need(api.device_get_uuid, {"cuDeviceGetUuid_v2", "cuDeviceGetUuid", "hipDeviceGetUuid"});
  finder.need(api.device_get_pci_bus_id, {"cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId"});
  finder.need(api.device_total_mem, {"cuDeviceTotalMem_v2", "hipDeviceTotalMem"});
  finder.need(api.device_get_attribute, {"cuDeviceGetAttribute", "hipDeviceGetAttribute"});
  finder.need(api.get_stream_priority_range,
              {"cuCtxGetStreamPriorityRange", "hipDeviceGetStreamPriorityRange"});
  finder.need(api.synchronize, {"cuCtxSynchronize", "hipDeviceSynchronize"});
  finder.need(api.device_can_access_peer, {"cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer"});
}

void find_memory(FunctionFinder& finder, Api& api) {
  finder.need(api.mem_get_info, {"cuMemGetInfo_v2", "hipMemGetInfo"});
  finder.need(api.mem_alloc, {"cuMemAlloc_v2", "hipMalloc"});
  finder.need(api.mem_free, {"cuMemFree_v2", "hipFree"});
  finder.need(api.pointer_get_attributes, {"cuPointerGetAttributes", "hipDrvPointerGetAttributes"});
  finder.need(api.ipc_get_mem_handle, {"cuIpcGetMemHandle", "hipIpcGetMemHandle"});
  finder.need(api.ipc_open_mem_handle, {"cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle"});
  finder.need(api.ipc_close_mem_handle, {"cuIpcCloseMemHandle", "hipIpcCloseMemHandle"});
  finder.need(api.mem_host_alloc, {"cuMemHostAlloc", "hipHostMalloc"});
  finder.need(api.mem_free_host, {"cuMemFreeHost", "hipHostFree"});
  finder.need(api.mem_host_register, {"cuMemHostRegister_v2", "hipHostRegister"});
  finder.need(api.mem_host_unregister, {"cuMemHostUnregister", "hipHostUnregister"});

  finder.need(api.mem_pool_create, {"cuMemPoolCreate", "hipMemPoolCreate"});
  finder.need(api.mem_pool_destroy, {"cuMemPoolDestroy", "hipMemPoolDestroy"});
  finder.need(api.mem_alloc_from_pool_async, {"cuMemAllocFromPoolAsync", "hipMallocFromPoolAsync"});
  finder.need(api.mem_free_async, {"cuMemFreeAsync", "hipFreeAsync"});
  finder.need(api.mem_pool_get_attribute, {"cuMemPoolGetAttribute", "hipMemPoolGetAttribute"});
  finder.need(api.mem_pool_set_attribute, {"cuMemPoolSetAttribute", "hipMemPoolSetAttribute"});
  finder.need(api.mem_pool_trim_to, {"cuMemPoolTrimTo", "hipMemPoolTrimTo"});
}

void find_work(FunctionFinder& finder, Api& api) {
  finder.need(api.stream_create_with_priority,
              {"cuStreamCreateWithPriority", "hipStreamCreateWithPriority"});
  finder.need(api.stream_destroy, {"cuStreamDestroy_v2", "hipStreamDestroy"});
  finder.need(api.stream_query, {"cuStreamQuery", "hipStreamQuery"});
  finder.need(api.stream_synchronize, {"cuStreamSynchronize", "hipStreamSynchronize"});
  finder.need(api.stream_wait_event, {"cuStreamWaitEvent", "hipStreamWaitEvent"});
  finder.need(api.event_create, {"cuEventCreate", "hipEventCreateWithFlags"});
  finder.need(api.event_destroy, {"cuEventDestroy_v2", "hipEventDestroy"});
  finder.need(api.event_record, {"cuEventRecord", "hipEventRecord"});
  finder.need(api.event_query, {"cuEventQuery", "hipEventQuery"});
  finder.need(api.event_synchronize, {"cuEventSynchronize", "hipEventSynchronize"});
  finder.need(api.event_elapsed_time,
              {"cuEventElapsedTime_v2", "cuEventElapsedTime", "hipEventElapsedTime"});

  finder.need(api.memcpy_htod_async, {"cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"});
  finder.need(api.memcpy_dtoh_async, {"cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"});
  finder.need(api.memcpy_dtod_async, {"cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync"});
  finder.need(api.memset_d8_async, {"cuMemsetD8Async", "hipMemsetD8Async"});
  finder.need(api.launch_host_func, {"cuLaunchHostFunc", "hipLaunchHostFunc"});
}

void find_graphs(FunctionFinder& finder, Api& api) {
  finder.need(api.stream_begin_capture, {"cuStreamBeginCapture_v2", "hipStreamBeginCapture"});
  finder.need(api.stream_end_capture, {"cuStreamEndCapture", "hipStreamEndCapture"});
  finder.want(api.stream_get_capture_info_v3, {"cuStreamGetCaptureInfo_v3"});
  if (!api.stream_get_capture_info_v3.is_there()) {
    finder.need(api.stream_get_capture_info_v2,
                {"cuStreamGetCaptureInfo_v2", "hipStreamGetCaptureInfo_v2"});
  }
  finder.want(api.graph_node_get_dependencies_v2, {"cuGraphNodeGetDependencies_v2"});
  if (!api.graph_node_get_dependencies_v2.is_there()) {
    finder.need(api.graph_node_get_dependencies,
                {"cuGraphNodeGetDependencies", "hipGraphNodeGetDependencies"});
  }
  finder.need(api.thread_exchange_stream_capture_mode,
              {"cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode"});
  finder.need(api.user_object_create, {"cuUserObjectCreate", "hipUserObjectCreate"});
  finder.need(api.user_object_release, {"cuUserObjectRelease", "hipUserObjectRelease"});
  finder.need(api.graph_retain_user_object,
              {"cuGraphRetainUserObject", "hipGraphRetainUserObject"});
  finder.need(api.graph_instantiate_with_flags,
              {"cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags"});
  finder.need(api.graph_launch, {"cuGraphLaunch", "hipGraphLaunch"});
  finder.need(api.graph_exec_destroy, {"cuGraphExecDestroy", "hipGraphExecDestroy"});
  finder.need(api.graph_destroy, {"cuGraphDestroy", "hipGraphDestroy"});
}

}  // namespace

void find_api(FunctionFinder& finder, Api& api) {
  find_devices(finder, api);
  find_memory(finder, api);
  find_work(finder, api);
  find_graphs(finder, api);
}

void find_virtual_memory(FunctionFinder& finder, Api& api) {
  finder.need(api.mem_get_allocation_granularity,
              {"cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity"});
  finder.need(api.mem_address_reserve, {"cuMemAddressReserve", "hipMemAddressReserve"});
  finder.need(api.mem_address_free, {"cuMemAddressFree", "hipMemAddressFree"});
  finder.need(api.mem_create, {"cuMemCreate", "hipMemCreate"});
  finder.need(api.mem_release, {"cuMemRelease", "hipMemRelease"});
  finder.need(api.mem_map, {"cuMemMap", "hipMemMap"});
  finder.need(api.mem_set_access, {"cuMemSetAccess", "hipMemSetAccess"});
  finder.need(api.mem_unmap, {"cuMemUnmap", "hipMemUnmap"});
  finder.need(api.mem_export_to_shareable_handle,
              {"cuMemExportToShareableHandle", "hipMemExportToShareableHandle"});
  finder.need(api.mem_import_from_shareable_handle,
              {"cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle"});
}

}  // namespace ashlar::gpu::abi
