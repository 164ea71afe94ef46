// SPDX-License-Identifier: Apache-2.0
//
// The names of the functions in CUDA and HIP; FunctionLoader picks the vendor's. A version suffix
// fixes the binary interface: drivers keep old versions next to new ones (see
// docs/internals/gpu_devices.md).
#include "device/gpu/driver_abi.h"

namespace ashlar::gpu::abi {
namespace {

void find_devices(FunctionLoader& loader, Api& api) {
  loader.require(api.init, {"cuInit", "hipInit"});
  loader.require(api.device_get_count, {"cuDeviceGetCount", "hipGetDeviceCount"});
  loader.require(api.device_get_name, {"cuDeviceGetName", "hipDeviceGetName"});
  // The second version, since CUDA 11.4, supports MIG partitions.
  loader.require(api.device_get_uuid,
                 {"cuDeviceGetUuid_v2", "cuDeviceGetUuid", "hipDeviceGetUuid"});
  loader.require(api.device_get_pci_bus_id, {"cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId"});
  loader.require(api.device_total_mem, {"cuDeviceTotalMem_v2", "hipDeviceTotalMem"});
  loader.require(api.device_get_attribute, {"cuDeviceGetAttribute", "hipDeviceGetAttribute"});
  loader.require(api.get_stream_priority_range,
                 {"cuCtxGetStreamPriorityRange", "hipDeviceGetStreamPriorityRange"});
  loader.require(api.synchronize, {"cuCtxSynchronize", "hipDeviceSynchronize"});
  loader.require(api.device_can_access_peer, {"cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer"});
}

void find_memory(FunctionLoader& loader, Api& api) {
  loader.require(api.mem_get_info, {"cuMemGetInfo_v2", "hipMemGetInfo"});
  loader.require(api.mem_alloc, {"cuMemAlloc_v2", "hipMalloc"});
  loader.require(api.mem_free, {"cuMemFree_v2", "hipFree"});
  loader.require(api.pointer_get_attributes,
                 {"cuPointerGetAttributes", "hipDrvPointerGetAttributes"});
  loader.require(api.ipc_get_mem_handle, {"cuIpcGetMemHandle", "hipIpcGetMemHandle"});
  loader.require(api.ipc_open_mem_handle, {"cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle"});
  loader.require(api.ipc_close_mem_handle, {"cuIpcCloseMemHandle", "hipIpcCloseMemHandle"});
  loader.require(api.mem_host_alloc, {"cuMemHostAlloc", "hipHostMalloc"});
  loader.require(api.mem_free_host, {"cuMemFreeHost", "hipHostFree"});
  loader.require(api.mem_host_register, {"cuMemHostRegister_v2", "hipHostRegister"});
  loader.require(api.mem_host_unregister, {"cuMemHostUnregister", "hipHostUnregister"});

  loader.require(api.mem_pool_create, {"cuMemPoolCreate", "hipMemPoolCreate"});
  loader.require(api.mem_pool_destroy, {"cuMemPoolDestroy", "hipMemPoolDestroy"});
  loader.require(api.mem_alloc_from_pool_async,
                 {"cuMemAllocFromPoolAsync", "hipMallocFromPoolAsync"});
  loader.require(api.mem_free_async, {"cuMemFreeAsync", "hipFreeAsync"});
  loader.require(api.mem_pool_get_attribute, {"cuMemPoolGetAttribute", "hipMemPoolGetAttribute"});
  loader.require(api.mem_pool_set_attribute, {"cuMemPoolSetAttribute", "hipMemPoolSetAttribute"});
  loader.require(api.mem_pool_trim_to, {"cuMemPoolTrimTo", "hipMemPoolTrimTo"});
}

void find_work(FunctionLoader& loader, Api& api) {
  loader.require(api.stream_create_with_priority,
                 {"cuStreamCreateWithPriority", "hipStreamCreateWithPriority"});
  loader.require(api.stream_destroy, {"cuStreamDestroy_v2", "hipStreamDestroy"});
  loader.require(api.stream_query, {"cuStreamQuery", "hipStreamQuery"});
  loader.require(api.stream_synchronize, {"cuStreamSynchronize", "hipStreamSynchronize"});
  loader.require(api.stream_wait_event, {"cuStreamWaitEvent", "hipStreamWaitEvent"});
  loader.require(api.event_create, {"cuEventCreate", "hipEventCreateWithFlags"});
  loader.require(api.event_destroy, {"cuEventDestroy_v2", "hipEventDestroy"});
  loader.require(api.event_record, {"cuEventRecord", "hipEventRecord"});
  loader.require(api.event_query, {"cuEventQuery", "hipEventQuery"});
  loader.require(api.event_synchronize, {"cuEventSynchronize", "hipEventSynchronize"});
  loader.require(api.event_elapsed_time,
                 {"cuEventElapsedTime_v2", "cuEventElapsedTime", "hipEventElapsedTime"});

  loader.require(api.memcpy_htod_async, {"cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"});
  loader.require(api.memcpy_dtoh_async, {"cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"});
  loader.require(api.memcpy_dtod_async, {"cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync"});
  loader.require(api.memset_d8_async, {"cuMemsetD8Async", "hipMemsetD8Async"});
  loader.require(api.launch_host_func, {"cuLaunchHostFunc", "hipLaunchHostFunc"});
}

void find_graphs(FunctionLoader& loader, Api& api) {
  loader.require(api.stream_begin_capture, {"cuStreamBeginCapture_v2", "hipStreamBeginCapture"});
  loader.require(api.stream_end_capture, {"cuStreamEndCapture", "hipStreamEndCapture"});
  loader.optional(api.stream_get_capture_info_v3, {"cuStreamGetCaptureInfo_v3"});
  if (!api.stream_get_capture_info_v3.is_loaded()) {
    loader.require(api.stream_get_capture_info_v2,
                   {"cuStreamGetCaptureInfo_v2", "hipStreamGetCaptureInfo_v2"});
  }
  loader.optional(api.graph_node_get_dependencies_v2, {"cuGraphNodeGetDependencies_v2"});
  if (!api.graph_node_get_dependencies_v2.is_loaded()) {
    loader.require(api.graph_node_get_dependencies,
                   {"cuGraphNodeGetDependencies", "hipGraphNodeGetDependencies"});
  }
  loader.require(api.thread_exchange_stream_capture_mode,
                 {"cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode"});
  loader.require(api.user_object_create, {"cuUserObjectCreate", "hipUserObjectCreate"});
  loader.require(api.user_object_release, {"cuUserObjectRelease", "hipUserObjectRelease"});
  loader.require(api.graph_retain_user_object,
                 {"cuGraphRetainUserObject", "hipGraphRetainUserObject"});
  loader.require(api.graph_instantiate_with_flags,
                 {"cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags"});
  loader.require(api.graph_launch, {"cuGraphLaunch", "hipGraphLaunch"});
  loader.require(api.graph_exec_destroy, {"cuGraphExecDestroy", "hipGraphExecDestroy"});
  loader.require(api.graph_destroy, {"cuGraphDestroy", "hipGraphDestroy"});
}

}  // namespace

void load_api(FunctionLoader& loader, Api& api) {
  find_devices(loader, api);
  find_memory(loader, api);
  find_work(loader, api);
  find_graphs(loader, api);
}

void load_virtual_memory(FunctionLoader& loader, Api& api) {
  loader.require(api.mem_get_allocation_granularity,
                 {"cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity"});
  loader.require(api.mem_address_reserve, {"cuMemAddressReserve", "hipMemAddressReserve"});
  loader.require(api.mem_address_free, {"cuMemAddressFree", "hipMemAddressFree"});
  loader.require(api.mem_create, {"cuMemCreate", "hipMemCreate"});
  loader.require(api.mem_release, {"cuMemRelease", "hipMemRelease"});
  loader.require(api.mem_map, {"cuMemMap", "hipMemMap"});
  loader.require(api.mem_set_access, {"cuMemSetAccess", "hipMemSetAccess"});
  loader.require(api.mem_unmap, {"cuMemUnmap", "hipMemUnmap"});
  loader.require(api.mem_export_to_shareable_handle,
                 {"cuMemExportToShareableHandle", "hipMemExportToShareableHandle"});
  loader.require(api.mem_import_from_shareable_handle,
                 {"cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle"});
}

}  // namespace ashlar::gpu::abi
