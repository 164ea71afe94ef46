// SPDX-License-Identifier: Apache-2.0
//
// Calls the driver functions for devices and memory.
#include "device/gpu/common_driver.h"

#include <cstring>

#include "base/text.h"
#include "device/gpu/driver_errors.h"

namespace ashlar::gpu {
namespace {

abi::MemAllocationProp properties_for(int device) {
  abi::MemAllocationProp request{};
  request.type = abi::kAllocationPinned;
  request.location = {abi::kLocationDevice, device};
  return request;
}

int access_flags(Access access) {
  switch (access) {
    case Access::kNone: return abi::kAccessNone;
    case Access::kRead: return abi::kAccessRead;
    case Access::kReadWrite: return abi::kAccessReadWrite;
  }
  return abi::kAccessNone;
}

}  // namespace

std::string CommonDriver::format_error(int code, const char* name, const char* description) {
  if (name == nullptr) return text("error ", code);
  return description == nullptr ? std::string(name) : text(name, ": ", description);
}

// --- devices

DriverResult CommonDriver::device_count(int& count) {
  count = 0;
  const DriverResult started = api_.device.init(0);
  if (started.code == abi::kNoDevice) return {started.call, abi::kSuccess};
  if (!started.ok()) return started;
  const DriverResult counted = api_.device.get_count(&count);
  return counted.code == abi::kNoDevice ? DriverResult{counted.call, abi::kSuccess} : counted;
}

DriverResult CommonDriver::query_device(int device, DeviceInfo& info) {
  char name[256] = {};
  if (const DriverResult got = api_.device.get_name(name, sizeof name, device); !got.ok()) {
    return got;
  }
  info.name = name;
  abi::Uuid uuid{};
  if (const DriverResult got = api_.device.get_uuid(&uuid, device); !got.ok()) return got;
  std::memcpy(info.uuid.data(), uuid.bytes, info.uuid.size());
  char pci_id[32] = {};
  if (const DriverResult got = api_.device.get_pci_bus_id(pci_id, sizeof pci_id, device);
      !got.ok()) {
    return got;
  }
  info.pci_id = pci_id;
  return api_.device.total_mem(&info.total_bytes, device);
}

bool CommonDriver::has_attribute(int device, int attribute) const {
  int value = 0;
  return api_.device.get_attribute(&value, attribute, device).ok() && value != 0;
}

DriverResult CommonDriver::granularity(int device, size_t& bytes) const {
  const abi::MemAllocationProp request = properties_for(device);
  return api_.vmm.get_allocation_granularity(&bytes, &request, abi::kGranularityMinimum);
}

// In drivers, lower numbers are more urgent: 0 is the default and, for example, -5 the most urgent.
// Ashlar inverts the sign, and does not use priorities that are less urgent than the default.
DriverResult CommonDriver::greatest_priority(int& priority) {
  int least = 0;
  int greatest = 0;
  const DriverResult got = api_.device.get_stream_priority_range(&least, &greatest);
  priority = got.ok() && greatest < 0 ? -greatest : 0;
  return got;
}

DriverResult CommonDriver::memory_stats(DeviceMemoryStats& stats) {
  return api_.memory.get_info(&stats.free_bytes, &stats.total_bytes);
}

DriverResult CommonDriver::can_access_peer(int device, int peer, bool& can_access) {
  int value = 0;
  const DriverResult got = api_.device.can_access_peer(&value, device, peer);
  can_access = value != 0;
  return got;
}

// --- plain memory

DriverResult CommonDriver::allocate(size_t bytes, DeviceAddress& at) {
  abi::Pointer created = 0;
  const DriverResult result = api_.memory.alloc(&created, bytes);
  at = DeviceAddress(created);
  return result;
}

DriverResult CommonDriver::free(DeviceAddress at) { return api_.memory.free(at.value()); }

DriverResult CommonDriver::query_address(DeviceAddress at, AddressInfo& info) {
  unsigned type = 0;
  int device = 0;
  abi::Pointer begin = 0;
  size_t bytes = 0;
  int attributes[] = {abi::kPointerMemoryType, abi::kPointerDeviceOrdinal, abi::kPointerRangeStart,
                      abi::kPointerRangeSize};
  void* values[] = {&type, &device, &begin, &bytes};
  const DriverResult got = api_.memory.pointer_get_attributes(4, attributes, values, at.value());
  if (!got.ok() || bytes == 0 || (type != abi::kMemoryTypeHost && type != abi::kMemoryTypeDevice)) {
    return got;
  }
  info.kind = type == abi::kMemoryTypeHost ? MemoryKind::kHost : MemoryKind::kDevice;
  info.device = device < 0 ? 0 : device;
  info.range = {DeviceAddress(begin), bytes};
  return got;
}

DriverResult CommonDriver::get_ipc_handle(DeviceAddress at, AllocationHandle& handle) {
  abi::IpcMemHandle created{};
  const DriverResult result = api_.ipc.get_mem_handle(&created, at.value());
  std::memcpy(handle.data(), created.reserved, handle.size());
  return result;
}

DriverResult CommonDriver::open_ipc_handle(const AllocationHandle& handle, DeviceAddress& at) {
  abi::IpcMemHandle request{};
  std::memcpy(request.reserved, handle.data(), handle.size());
  abi::Pointer opened = 0;
  const DriverResult result =
      api_.ipc.open_mem_handle(&opened, request, abi::kIpcLazyEnablePeerAccess);
  at = DeviceAddress(opened);
  return result;
}

DriverResult CommonDriver::close_ipc_handle(DeviceAddress at) {
  return api_.ipc.close_mem_handle(at.value());
}

DriverResult CommonDriver::allocate_host(size_t bytes, void*& memory) {
  return api_.host.alloc(&memory, bytes, abi::kHostPortable);
}

DriverResult CommonDriver::free_host(void* memory) { return api_.host.free(memory); }

DriverResult CommonDriver::register_host(void* memory, size_t bytes) {
  return api_.host.register_range(memory, bytes, abi::kHostPortable);
}

DriverResult CommonDriver::unregister_host(void* memory) {
  return api_.host.unregister_range(memory);
}

// --- virtual memory

DriverResult CommonDriver::reserve(const ReserveRequest& request, DeviceAddress& at) {
  abi::Pointer begin = 0;
  const DriverResult result = api_.vmm.address_reserve(
      &begin, request.bytes, request.alignment_bytes, request.hint.value(), 0);
  at = DeviceAddress(begin);
  return result;
}

DriverResult CommonDriver::free_addresses(AddressRange range) {
  return api_.vmm.address_free(range.begin.value(), range.bytes);
}

DriverResult CommonDriver::create(const CreateRequest& request, Handle& extent) {
  abi::MemAllocationProp properties = properties_for(request.device);
  properties.requested_handle_types = (request.can_export_fd ? abi::kHandlePosixFd : 0) |
                                      (request.can_export_fabric ? abi::kHandleFabric : 0);
  properties.gpu_direct_rdma_capable = request.rdma ? 1 : 0;
  abi::MemHandle created = 0;
  const DriverResult result = api_.vmm.create(&created, request.bytes, &properties, 0);
  extent = created;
  return result;
}

DriverResult CommonDriver::release(Handle extent) { return api_.vmm.release(extent); }

DriverResult CommonDriver::map(AddressRange at, Handle extent) {
  return api_.vmm.map(at.begin.value(), at.bytes, 0, extent, 0);
}

DriverResult CommonDriver::set_access(AddressRange range, int accessor, Access access) {
  const abi::MemAccessDesc request{{abi::kLocationDevice, accessor}, access_flags(access)};
  return api_.vmm.set_access(range.begin.value(), range.bytes, &request, 1);
}

DriverResult CommonDriver::unmap(AddressRange range) {
  return api_.vmm.unmap(range.begin.value(), range.bytes);
}

DriverResult CommonDriver::export_fd(Handle extent, int& fd) {
  return api_.vmm.export_to_shareable_handle(&fd, extent, abi::kHandlePosixFd, 0);
}

// The driver expects the descriptor itself in place of a pointer. HipDriver overrides this function
// for older runtimes.
DriverResult CommonDriver::import_fd(int fd, Handle& extent) {
  return import_handle(reinterpret_cast<void*>(static_cast<uintptr_t>(fd)), abi::kHandlePosixFd,
                       extent);
}

DriverResult CommonDriver::export_fabric(Handle extent, FabricHandle& handle) {
  abi::MemFabricHandle created{};
  const DriverResult result =
      api_.vmm.export_to_shareable_handle(&created, extent, abi::kHandleFabric, 0);
  std::memcpy(handle.data(), created.data, handle.size());
  return result;
}

DriverResult CommonDriver::import_fabric(const FabricHandle& handle, Handle& extent) {
  abi::MemFabricHandle request{};
  std::memcpy(request.data, handle.data(), handle.size());
  return import_handle(&request, abi::kHandleFabric, extent);
}

DriverResult CommonDriver::import_handle(void* handle, int kind, Handle& extent) const {
  abi::MemHandle created = 0;
  const DriverResult result = api_.vmm.import_from_shareable_handle(&created, handle, kind);
  extent = created;
  return result;
}

// --- multicast

DriverResult CommonDriver::multicast_granularity(const MulticastRequest& /*wanted*/,
                                                 size_t& /*bytes*/) {
  return {"querying the multicast granularity", kNotSupported};
}

DriverResult CommonDriver::create_multicast(const MulticastRequest& /*wanted*/,
                                            Handle& /*object*/) {
  return {"creating a multicast object", kNotSupported};
}

DriverResult CommonDriver::add_to_multicast(Handle /*object*/, int /*device*/) {
  return {"adding a device to a multicast object", kNotSupported};
}

DriverResult CommonDriver::bind_multicast(Handle /*object*/, Handle /*extent*/, size_t /*bytes*/) {
  return {"binding memory to a multicast object", kNotSupported};
}

DriverResult CommonDriver::unbind_multicast(Handle /*object*/, int /*device*/, size_t /*bytes*/) {
  return {"unbinding memory from a multicast object", kNotSupported};
}

}  // namespace ashlar::gpu
