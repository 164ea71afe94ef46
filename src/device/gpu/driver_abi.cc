// SPDX-License-Identifier: Apache-2.0
//
// Lists the names of the functions in CUDA and HIP; FunctionLoader picks the vendor's names. A
// version suffix fixes the binary interface: drivers keep old versions next to new versions (see
// docs/internals/gpu_devices.md).
#include "device/gpu/driver_abi.h"

namespace ashlar::gpu::abi {
namespace {

void load(FunctionLoader& loader, DeviceApi& device) {
  loader.require(device.init, {"cuInit", "hipInit"});
  loader.require(device.get_count, {"cuDeviceGetCount", "hipGetDeviceCount"});
  loader.require(device.get_name, {"cuDeviceGetName", "hipDeviceGetName"});
  // The second version, since CUDA 11.4, supports MIG partitions.
  loader.require(device.get_uuid, {"cuDeviceGetUuid_v2", "cuDeviceGetUuid", "hipDeviceGetUuid"});
  loader.require(device.get_pci_bus_id, {"cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId"});
  loader.require(device.total_mem, {"cuDeviceTotalMem_v2", "hipDeviceTotalMem"});
  loader.require(device.get_attribute, {"cuDeviceGetAttribute", "hipDeviceGetAttribute"});
  loader.require(device.get_stream_priority_range,
                 {"cuCtxGetStreamPriorityRange", "hipDeviceGetStreamPriorityRange"});
  loader.require(device.synchronize, {"cuCtxSynchronize", "hipDeviceSynchronize"});
  loader.require(device.can_access_peer, {"cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer"});
}

void load(FunctionLoader& loader, MemoryApi& memory) {
  loader.require(memory.get_info, {"cuMemGetInfo_v2", "hipMemGetInfo"});
  loader.require(memory.alloc, {"cuMemAlloc_v2", "hipMalloc"});
  loader.require(memory.free, {"cuMemFree_v2", "hipFree"});
  loader.require(memory.pointer_get_attributes,
                 {"cuPointerGetAttributes", "hipDrvPointerGetAttributes"});
}

void load(FunctionLoader& loader, IpcApi& ipc) {
  loader.require(ipc.get_mem_handle, {"cuIpcGetMemHandle", "hipIpcGetMemHandle"});
  loader.require(ipc.open_mem_handle, {"cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle"});
  loader.require(ipc.close_mem_handle, {"cuIpcCloseMemHandle", "hipIpcCloseMemHandle"});
}

void load(FunctionLoader& loader, HostMemoryApi& host) {
  loader.require(host.alloc, {"cuMemHostAlloc", "hipHostMalloc"});
  loader.require(host.free, {"cuMemFreeHost", "hipHostFree"});
  loader.require(host.register_range, {"cuMemHostRegister_v2", "hipHostRegister"});
  loader.require(host.unregister_range, {"cuMemHostUnregister", "hipHostUnregister"});
}

void load(FunctionLoader& loader, StreamApi& stream) {
  loader.require(stream.create_with_priority,
                 {"cuStreamCreateWithPriority", "hipStreamCreateWithPriority"});
  loader.require(stream.destroy, {"cuStreamDestroy_v2", "hipStreamDestroy"});
  loader.require(stream.query, {"cuStreamQuery", "hipStreamQuery"});
  loader.require(stream.synchronize, {"cuStreamSynchronize", "hipStreamSynchronize"});
  loader.require(stream.wait_event, {"cuStreamWaitEvent", "hipStreamWaitEvent"});
  loader.require(stream.memcpy_htod_async, {"cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"});
  loader.require(stream.memcpy_dtoh_async, {"cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"});
  loader.require(stream.memcpy_dtod_async, {"cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync"});
  loader.require(stream.memset_d8_async, {"cuMemsetD8Async", "hipMemsetD8Async"});
  loader.require(stream.launch_host_func, {"cuLaunchHostFunc", "hipLaunchHostFunc"});
}

void load(FunctionLoader& loader, EventApi& event) {
  loader.require(event.create, {"cuEventCreate", "hipEventCreateWithFlags"});
  loader.require(event.destroy, {"cuEventDestroy_v2", "hipEventDestroy"});
  loader.require(event.record, {"cuEventRecord", "hipEventRecord"});
  loader.require(event.query, {"cuEventQuery", "hipEventQuery"});
  loader.require(event.synchronize, {"cuEventSynchronize", "hipEventSynchronize"});
  loader.require(event.elapsed_time,
                 {"cuEventElapsedTime_v2", "cuEventElapsedTime", "hipEventElapsedTime"});
}

void load(FunctionLoader& loader, MemoryPoolApi& pool) {
  loader.require(pool.create, {"cuMemPoolCreate", "hipMemPoolCreate"});
  loader.require(pool.destroy, {"cuMemPoolDestroy", "hipMemPoolDestroy"});
  loader.require(pool.alloc_async, {"cuMemAllocFromPoolAsync", "hipMallocFromPoolAsync"});
  loader.require(pool.free_async, {"cuMemFreeAsync", "hipFreeAsync"});
  loader.require(pool.get_attribute, {"cuMemPoolGetAttribute", "hipMemPoolGetAttribute"});
  loader.require(pool.set_attribute, {"cuMemPoolSetAttribute", "hipMemPoolSetAttribute"});
  loader.require(pool.trim_to, {"cuMemPoolTrimTo", "hipMemPoolTrimTo"});
}

void load(FunctionLoader& loader, CaptureApi& capture) {
  loader.require(capture.begin, {"cuStreamBeginCapture_v2", "hipStreamBeginCapture"});
  loader.require(capture.end, {"cuStreamEndCapture", "hipStreamEndCapture"});
  loader.optional(capture.get_info_v3, {"cuStreamGetCaptureInfo_v3"});
  if (!capture.get_info_v3.is_loaded()) {
    loader.require(capture.get_info_v2,
                   {"cuStreamGetCaptureInfo_v2", "hipStreamGetCaptureInfo_v2"});
  }
  loader.require(capture.exchange_thread_mode,
                 {"cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode"});
}

void load(FunctionLoader& loader, GraphApi& graph) {
  loader.optional(graph.node_get_dependencies_v2, {"cuGraphNodeGetDependencies_v2"});
  if (!graph.node_get_dependencies_v2.is_loaded()) {
    loader.require(graph.node_get_dependencies,
                   {"cuGraphNodeGetDependencies", "hipGraphNodeGetDependencies"});
  }
  loader.require(graph.user_object_create, {"cuUserObjectCreate", "hipUserObjectCreate"});
  loader.require(graph.user_object_release, {"cuUserObjectRelease", "hipUserObjectRelease"});
  loader.require(graph.retain_user_object, {"cuGraphRetainUserObject", "hipGraphRetainUserObject"});
  loader.require(graph.instantiate_with_flags,
                 {"cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags"});
  loader.require(graph.launch, {"cuGraphLaunch", "hipGraphLaunch"});
  loader.require(graph.exec_destroy, {"cuGraphExecDestroy", "hipGraphExecDestroy"});
  loader.require(graph.destroy, {"cuGraphDestroy", "hipGraphDestroy"});
}

}  // namespace

void load_api(FunctionLoader& loader, DriverApi& api) {
  load(loader, api.device);
  load(loader, api.memory);
  load(loader, api.ipc);
  load(loader, api.host);
  load(loader, api.stream);
  load(loader, api.event);
  load(loader, api.pool);
  load(loader, api.capture);
  load(loader, api.graph);
}

void load_virtual_memory(FunctionLoader& loader, DriverApi& api) {
  VirtualMemoryApi& vmm = api.vmm;
  loader.require(vmm.get_allocation_granularity,
                 {"cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity"});
  loader.require(vmm.address_reserve, {"cuMemAddressReserve", "hipMemAddressReserve"});
  loader.require(vmm.address_free, {"cuMemAddressFree", "hipMemAddressFree"});
  loader.require(vmm.create, {"cuMemCreate", "hipMemCreate"});
  loader.require(vmm.release, {"cuMemRelease", "hipMemRelease"});
  loader.require(vmm.map, {"cuMemMap", "hipMemMap"});
  loader.require(vmm.set_access, {"cuMemSetAccess", "hipMemSetAccess"});
  loader.require(vmm.unmap, {"cuMemUnmap", "hipMemUnmap"});
  loader.require(vmm.export_to_shareable_handle,
                 {"cuMemExportToShareableHandle", "hipMemExportToShareableHandle"});
  loader.require(vmm.import_from_shareable_handle,
                 {"cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle"});
}

}  // namespace ashlar::gpu::abi
