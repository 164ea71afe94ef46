// Finding the runtime's functions.
#include "device/hip/hip_abi.h"

namespace ashlar::hip {
namespace {

void find_devices(gpu::FunctionFinder& finder, Api& api) {
  finder.need(api.get_error_name, "hipGetErrorName");
  finder.need(api.get_error_string, "hipGetErrorString");
  finder.need(api.get_last_error, "hipGetLastError");
  finder.need(api.init, "hipInit");
  finder.need(api.runtime_get_version, "hipRuntimeGetVersion");
  finder.need(api.get_device_count, "hipGetDeviceCount");
  finder.need(api.get_device, "hipGetDevice");
  finder.need(api.set_device, "hipSetDevice");
  finder.need(api.device_get_name, "hipDeviceGetName");
  finder.need(api.device_get_uuid, "hipDeviceGetUuid");
  finder.need(api.device_get_pci_bus_id, "hipDeviceGetPCIBusId");
  finder.need(api.device_total_mem, "hipDeviceTotalMem");
  finder.need(api.device_get_attribute, "hipDeviceGetAttribute");
  finder.need(api.device_get_stream_priority_range, "hipDeviceGetStreamPriorityRange");
  finder.need(api.device_synchronize, "hipDeviceSynchronize");
  finder.need(api.device_can_access_peer, "hipDeviceCanAccessPeer");
  finder.need(api.device_enable_peer_access, "hipDeviceEnablePeerAccess");
  finder.need(api.device_disable_peer_access, "hipDeviceDisablePeerAccess");
}

void find_memory(gpu::FunctionFinder& finder, Api& api) {
  finder.need(api.mem_get_info, "hipMemGetInfo");
  finder.need(api.malloc, "hipMalloc");
  finder.need(api.free, "hipFree");
  finder.need(api.drv_pointer_get_attributes, "hipDrvPointerGetAttributes");
  finder.need(api.ipc_get_mem_handle, "hipIpcGetMemHandle");
  finder.need(api.ipc_open_mem_handle, "hipIpcOpenMemHandle");
  finder.need(api.ipc_close_mem_handle, "hipIpcCloseMemHandle");
  finder.need(api.host_malloc, "hipHostMalloc");
  finder.need(api.host_free, "hipHostFree");
  finder.need(api.host_register, "hipHostRegister");
  finder.need(api.host_unregister, "hipHostUnregister");

  finder.need(api.mem_pool_create, "hipMemPoolCreate");
  finder.need(api.mem_pool_destroy, "hipMemPoolDestroy");
  finder.need(api.malloc_from_pool_async, "hipMallocFromPoolAsync");
  finder.need(api.free_async, "hipFreeAsync");
  finder.need(api.mem_pool_get_attribute, "hipMemPoolGetAttribute");
  finder.need(api.mem_pool_set_attribute, "hipMemPoolSetAttribute");
  finder.need(api.mem_pool_trim_to, "hipMemPoolTrimTo");
}

// All of them, or it is a runtime without.
void find_virtual_memory(gpu::FunctionFinder& finder, Api& api) {
  finder.want(api.mem_import_from_shareable_handle, {"hipMemImportFromShareableHandle"});
  if (!api.has_virtual_memory()) return;
  finder.need(api.mem_get_allocation_granularity, "hipMemGetAllocationGranularity");
  finder.need(api.mem_address_reserve, "hipMemAddressReserve");
  finder.need(api.mem_address_free, "hipMemAddressFree");
  finder.need(api.mem_create, "hipMemCreate");
  finder.need(api.mem_release, "hipMemRelease");
  finder.need(api.mem_map, "hipMemMap");
  finder.need(api.mem_set_access, "hipMemSetAccess");
  finder.need(api.mem_unmap, "hipMemUnmap");
  finder.need(api.mem_export_to_shareable_handle, "hipMemExportToShareableHandle");
}

void find_work(gpu::FunctionFinder& finder, Api& api) {
  finder.need(api.stream_create_with_priority, "hipStreamCreateWithPriority");
  finder.need(api.stream_destroy, "hipStreamDestroy");
  finder.need(api.stream_query, "hipStreamQuery");
  finder.need(api.stream_synchronize, "hipStreamSynchronize");
  finder.need(api.stream_wait_event, "hipStreamWaitEvent");
  finder.need(api.event_create_with_flags, "hipEventCreateWithFlags");
  finder.need(api.event_destroy, "hipEventDestroy");
  finder.need(api.event_record, "hipEventRecord");
  finder.need(api.event_query, "hipEventQuery");
  finder.need(api.event_synchronize, "hipEventSynchronize");
  finder.need(api.event_elapsed_time, "hipEventElapsedTime");

  finder.need(api.memcpy_htod_async, "hipMemcpyHtoDAsync");
  finder.need(api.memcpy_dtoh_async, "hipMemcpyDtoHAsync");
  finder.need(api.memcpy_dtod_async, "hipMemcpyDtoDAsync");
  finder.need(api.memcpy_peer_async, "hipMemcpyPeerAsync");
  finder.need(api.memset_d8_async, "hipMemsetD8Async");
  finder.need(api.launch_host_func, "hipLaunchHostFunc");
}

void find_graphs(gpu::FunctionFinder& finder, Api& api) {
  finder.need(api.stream_begin_capture, "hipStreamBeginCapture");
  finder.need(api.stream_end_capture, "hipStreamEndCapture");
  finder.need(api.stream_get_capture_info, "hipStreamGetCaptureInfo_v2");
  finder.need(api.graph_node_get_dependencies, "hipGraphNodeGetDependencies");
  finder.need(api.thread_exchange_stream_capture_mode, "hipThreadExchangeStreamCaptureMode");
  finder.need(api.user_object_create, "hipUserObjectCreate");
  finder.need(api.user_object_release, "hipUserObjectRelease");
  finder.need(api.graph_retain_user_object, "hipGraphRetainUserObject");
  finder.need(api.graph_instantiate_with_flags, "hipGraphInstantiateWithFlags");
  finder.need(api.graph_launch, "hipGraphLaunch");
  finder.need(api.graph_exec_destroy, "hipGraphExecDestroy");
  finder.need(api.graph_destroy, "hipGraphDestroy");
}

}  // namespace

Result<Api> find_api(const DriverLibrary& library) {
  Api api;
  gpu::FunctionFinder finder(library);
  find_devices(finder, api);
  find_memory(finder, api);
  find_virtual_memory(finder, api);
  find_work(finder, api);
  find_graphs(finder, api);
  if (Status complete = finder.status(); !complete.ok()) return complete;
  return api;
}

}  // namespace ashlar::hip
