// Finding the driver's functions. A suffix fixes the binary interface for good: a driver keeps old
// versions beside the new, so asking for the one that was declared is enough, and nothing depends
// on which version a plain name stands for (docs/design/gpu_devices.md).
#include "device/cuda/cuda_abi.h"

namespace ashlar::cuda {
namespace {

void find_devices(gpu::FunctionFinder& finder, Api& api) {
  finder.need(api.get_error_name, "cuGetErrorName");
  finder.need(api.get_error_string, "cuGetErrorString");
  finder.need(api.init, "cuInit");
  finder.need(api.device_get_count, "cuDeviceGetCount");
  finder.need(api.device_get, "cuDeviceGet");
  finder.need(api.device_get_name, "cuDeviceGetName");
  // The second version knows the parts of a partitioned device; CUDA 11.4.
  finder.need(api.device_get_uuid, {"cuDeviceGetUuid_v2", "cuDeviceGetUuid"});
  finder.need(api.device_get_pci_bus_id, "cuDeviceGetPCIBusId");
  finder.need(api.device_total_mem, "cuDeviceTotalMem_v2");
  finder.need(api.device_get_attribute, "cuDeviceGetAttribute");
  finder.need(api.device_primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  finder.need(api.device_primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
  finder.need(api.ctx_get_current, "cuCtxGetCurrent");
  finder.need(api.ctx_push_current, "cuCtxPushCurrent_v2");
  finder.need(api.ctx_pop_current, "cuCtxPopCurrent_v2");
  finder.need(api.ctx_get_stream_priority_range, "cuCtxGetStreamPriorityRange");
  finder.need(api.ctx_synchronize, "cuCtxSynchronize");
  finder.need(api.ctx_enable_peer_access, "cuCtxEnablePeerAccess");
  finder.need(api.ctx_disable_peer_access, "cuCtxDisablePeerAccess");
  finder.need(api.device_can_access_peer, "cuDeviceCanAccessPeer");
}

void find_memory(gpu::FunctionFinder& finder, Api& api) {
  finder.need(api.mem_get_info, "cuMemGetInfo_v2");
  finder.need(api.mem_alloc, "cuMemAlloc_v2");
  finder.need(api.mem_free, "cuMemFree_v2");
  finder.need(api.pointer_get_attributes, "cuPointerGetAttributes");
  finder.need(api.ipc_get_mem_handle, "cuIpcGetMemHandle");
  finder.need(api.ipc_open_mem_handle, "cuIpcOpenMemHandle_v2");
  finder.need(api.ipc_close_mem_handle, "cuIpcCloseMemHandle");
  finder.need(api.mem_host_alloc, "cuMemHostAlloc");
  finder.need(api.mem_free_host, "cuMemFreeHost");
  finder.need(api.mem_host_register, "cuMemHostRegister_v2");
  finder.need(api.mem_host_unregister, "cuMemHostUnregister");

  finder.need(api.mem_get_allocation_granularity, "cuMemGetAllocationGranularity");
  finder.need(api.mem_address_reserve, "cuMemAddressReserve");
  finder.need(api.mem_address_free, "cuMemAddressFree");
  finder.need(api.mem_create, "cuMemCreate");
  finder.need(api.mem_release, "cuMemRelease");
  finder.need(api.mem_map, "cuMemMap");
  finder.need(api.mem_set_access, "cuMemSetAccess");
  finder.need(api.mem_unmap, "cuMemUnmap");
  finder.need(api.mem_export_to_shareable_handle, "cuMemExportToShareableHandle");
  finder.need(api.mem_import_from_shareable_handle, "cuMemImportFromShareableHandle");

  finder.need(api.mem_pool_create, "cuMemPoolCreate");
  finder.need(api.mem_pool_destroy, "cuMemPoolDestroy");
  finder.need(api.mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync");
  finder.need(api.mem_free_async, "cuMemFreeAsync");
  finder.need(api.mem_pool_get_attribute, "cuMemPoolGetAttribute");
  finder.need(api.mem_pool_set_attribute, "cuMemPoolSetAttribute");
  finder.need(api.mem_pool_trim_to, "cuMemPoolTrimTo");
}

void find_work(gpu::FunctionFinder& finder, Api& api) {
  finder.need(api.stream_create_with_priority, "cuStreamCreateWithPriority");
  finder.need(api.stream_destroy, "cuStreamDestroy_v2");
  finder.need(api.stream_query, "cuStreamQuery");
  finder.need(api.stream_synchronize, "cuStreamSynchronize");
  finder.need(api.stream_wait_event, "cuStreamWaitEvent");
  finder.need(api.event_create, "cuEventCreate");
  finder.need(api.event_destroy, "cuEventDestroy_v2");
  finder.need(api.event_record, "cuEventRecord");
  finder.need(api.event_query, "cuEventQuery");
  finder.need(api.event_synchronize, "cuEventSynchronize");
  finder.need(api.event_elapsed_time, {"cuEventElapsedTime_v2", "cuEventElapsedTime"});

  finder.need(api.memcpy_htod_async, "cuMemcpyHtoDAsync_v2");
  finder.need(api.memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2");
  finder.need(api.memcpy_dtod_async, "cuMemcpyDtoDAsync_v2");
  finder.need(api.memcpy_peer_async, "cuMemcpyPeerAsync");
  finder.need(api.memset_d8_async, "cuMemsetD8Async");
  finder.need(api.launch_host_func, "cuLaunchHostFunc");
}

void find_graphs(gpu::FunctionFinder& finder, Api& api) {
  finder.need(api.stream_begin_capture, "cuStreamBeginCapture_v2");
  finder.need(api.stream_end_capture, "cuStreamEndCapture");
  finder.want(api.stream_get_capture_info_v3, {"cuStreamGetCaptureInfo_v3"});
  if (!api.stream_get_capture_info_v3.is_there()) {
    finder.need(api.stream_get_capture_info_v2, "cuStreamGetCaptureInfo_v2");
  }
  finder.want(api.graph_node_get_dependencies_v2, {"cuGraphNodeGetDependencies_v2"});
  if (!api.graph_node_get_dependencies_v2.is_there()) {
    finder.need(api.graph_node_get_dependencies, "cuGraphNodeGetDependencies");
  }
  finder.need(api.thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode");
  finder.need(api.user_object_create, "cuUserObjectCreate");
  finder.need(api.user_object_release, "cuUserObjectRelease");
  finder.need(api.graph_retain_user_object, "cuGraphRetainUserObject");
  finder.need(api.graph_instantiate_with_flags, "cuGraphInstantiateWithFlags");
  finder.need(api.graph_launch, "cuGraphLaunch");
  finder.need(api.graph_exec_destroy, "cuGraphExecDestroy");
  finder.need(api.graph_destroy, "cuGraphDestroy");
}

}  // namespace

Result<Api> find_api(const DriverLibrary& library) {
  Api api;
  gpu::FunctionFinder finder(library);
  find_devices(finder, api);
  find_memory(finder, api);
  find_work(finder, api);
  find_graphs(finder, api);
  if (Status complete = finder.status(); !complete.ok()) return complete;
  return api;
}

}  // namespace ashlar::cuda
