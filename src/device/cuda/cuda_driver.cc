// The neutral functions as CUDA's, one line each where that is enough: devices and memory here,
// streams and graphs in cuda_driver_work.cc.
#include "device/cuda/cuda_driver.h"

#include <cstring>

#include "base/text.h"

namespace ashlar::cuda {
namespace {

MemAllocationProp properties_for(int device) {
  MemAllocationProp wanted{};
  wanted.type = kAllocationPinned;
  wanted.location = {kLocationDevice, device};
  return wanted;
}

int access_flags(Access access) {
  switch (access) {
    case Access::kNone: return kAccessNone;
    case Access::kRead: return kAccessRead;
    case Access::kReadWrite: return kAccessReadWrite;
  }
  return kAccessNone;
}

}  // namespace

std::string CudaDriver::error_text(int code) const {
  const char* name = nullptr;
  const char* explained = nullptr;
  (void)api_.get_error_name(code, &name);
  (void)api_.get_error_string(code, &explained);
  if (name == nullptr) return text("error ", code);
  return explained == nullptr ? std::string(name) : text(name, ": ", explained);
}

// --- devices ------------------------------------------------------------------------------------

gpu::Outcome CudaDriver::device_count(int& count) {
  count = 0;
  const gpu::Outcome started = api_.init(0);
  if (started.code == kNoDevice) return {started.call, kSuccess};
  if (!started.ok()) return started;
  const gpu::Outcome counted = api_.device_get_count(&count);
  contexts_.assign(static_cast<size_t>(count), nullptr);
  has_rdma_.assign(static_cast<size_t>(count), false);
  return counted;
}

gpu::Outcome CudaDriver::look_at(int device, gpu::DeviceFacts& facts) {
  // A device's number is its handle, for every driver so far; the driver is asked all the same.
  int handle = 0;
  if (const gpu::Outcome got = api_.device_get(&handle, device); !got.ok()) return got;
  char name[256] = {};
  if (const gpu::Outcome got = api_.device_get_name(name, sizeof name, handle); !got.ok()) {
    return got;
  }
  facts.name = name;
  Uuid uuid{};
  if (const gpu::Outcome got = api_.device_get_uuid(&uuid, handle); !got.ok()) return got;
  std::memcpy(facts.uuid.data(), uuid.bytes, facts.uuid.size());
  char pci_id[32] = {};
  if (const gpu::Outcome got = api_.device_get_pci_bus_id(pci_id, sizeof pci_id, handle);
      !got.ok()) {
    return got;
  }
  facts.pci_id = pci_id;
  const auto has = [&](int attribute) {
    int value = 0;
    return api_.device_get_attribute(&value, attribute, handle).ok() && value != 0;
  };
  facts.has_stream_pool = has(kAttributeMemoryPools);
  has_rdma_[static_cast<size_t>(device)] = has(kAttributeRdmaWithVirtualMemory);
  if (has(kAttributeVirtualMemory)) {
    const MemAllocationProp wanted = properties_for(device);
    const gpu::Outcome got =
        api_.mem_get_allocation_granularity(&facts.granularity_bytes, &wanted, kGranularityMinimum);
    if (!got.ok()) return got;
  }
  return api_.device_total_mem(&facts.total_bytes, handle);
}

gpu::Outcome CudaDriver::use(int device) {
  return api_.device_primary_ctx_retain(&contexts_[static_cast<size_t>(device)], device);
}

void CudaDriver::leave_for_good(int device) { (void)api_.device_primary_ctx_release(device); }

// The usual case is a thread that is there already, and costs one call.
gpu::Outcome CudaDriver::enter(int device, gpu::Entered& entered) {
  const Context wanted = contexts_[static_cast<size_t>(device)];
  Context current = nullptr;
  const gpu::Outcome got = api_.ctx_get_current(&current);
  if (got.ok() && current == wanted) return got;
  const gpu::Outcome pushed = api_.ctx_push_current(wanted);
  entered.is_changed = pushed.ok();
  return pushed;
}

void CudaDriver::leave(const gpu::Entered& entered) {
  Context popped = nullptr;
  if (entered.is_changed) (void)api_.ctx_pop_current(&popped);
}

Result<std::vector<ProcessUse>> CudaDriver::processes(const gpu::DeviceFacts& facts) {
  if (!monitor_.ok()) {
    return Status::unsupported(text("no monitor: ", monitor_.status().message()));
  }
  return monitor_->processes(facts.uuid);
}

// CUDA counts downwards: 0 is the least urgent, -5 the most.
gpu::Outcome CudaDriver::greatest_priority(int& priority) {
  int least = 0;
  int greatest = 0;
  const gpu::Outcome got = api_.ctx_get_stream_priority_range(&least, &greatest);
  priority = got.ok() && greatest < 0 ? -greatest : 0;
  return got;
}

gpu::Outcome CudaDriver::memory_use(MemoryUse& use) {
  return api_.mem_get_info(&use.free_bytes, &use.total_bytes);
}

gpu::Outcome CudaDriver::can_access_peer(int device, int peer, bool& can) {
  int answer = 0;
  const gpu::Outcome got = api_.device_can_access_peer(&answer, device, peer);
  can = answer != 0;
  return got;
}

gpu::Outcome CudaDriver::enable_peer_access(int peer) {
  return api_.ctx_enable_peer_access(contexts_[static_cast<size_t>(peer)], 0);
}

gpu::Outcome CudaDriver::disable_peer_access(int peer) {
  return api_.ctx_disable_peer_access(contexts_[static_cast<size_t>(peer)]);
}

// --- plain memory -------------------------------------------------------------------------------

gpu::Outcome CudaDriver::allocate(size_t bytes, DeviceAddress& at) {
  Pointer made = 0;
  const gpu::Outcome outcome = api_.mem_alloc(&made, bytes);
  at = DeviceAddress(made);
  return outcome;
}

gpu::Outcome CudaDriver::free(DeviceAddress at) { return api_.mem_free(at.value()); }

// Asked for several attributes at once, the driver answers 0 for an address it does not know, or
// calls one that cannot be an address invalid.
gpu::Outcome CudaDriver::locate(DeviceAddress at, gpu::Location& location) {
  unsigned type = 0;
  int device = 0;
  Pointer begin = 0;
  size_t bytes = 0;
  int attributes[] = {kPointerMemoryType, kPointerDeviceOrdinal, kPointerRangeStart,
                      kPointerRangeSize};
  void* answers[] = {&type, &device, &begin, &bytes};
  const gpu::Outcome got = api_.pointer_get_attributes(4, attributes, answers, at.value());
  if (got.code == kInvalidAddress) return {got.call, kSuccess};
  if (!got.ok() || bytes == 0 || (type != kMemoryTypeHost && type != kMemoryTypeDevice)) {
    return got;
  }
  location.kind = type == kMemoryTypeHost ? MemoryKind::kHost : MemoryKind::kDevice;
  location.device = device < 0 ? 0 : device;
  location.range = {DeviceAddress(begin), bytes};
  return got;
}

gpu::Outcome CudaDriver::share(DeviceAddress at, AllocationHandle& handle) {
  IpcMemHandle made{};
  const gpu::Outcome outcome = api_.ipc_get_mem_handle(&made, at.value());
  std::memcpy(handle.data(), made.reserved, handle.size());
  return outcome;
}

gpu::Outcome CudaDriver::open_shared(const AllocationHandle& handle, DeviceAddress& at) {
  IpcMemHandle wanted{};
  std::memcpy(wanted.reserved, handle.data(), handle.size());
  Pointer opened = 0;
  const gpu::Outcome outcome = api_.ipc_open_mem_handle(&opened, wanted, kIpcLazyEnablePeerAccess);
  at = DeviceAddress(opened);
  return outcome;
}

gpu::Outcome CudaDriver::close_shared(DeviceAddress at) {
  return api_.ipc_close_mem_handle(at.value());
}

gpu::Outcome CudaDriver::allocate_host(size_t bytes, void*& memory) {
  return api_.mem_host_alloc(&memory, bytes, kHostPortable);
}

gpu::Outcome CudaDriver::free_host(void* memory) { return api_.mem_free_host(memory); }

gpu::Outcome CudaDriver::register_host(void* memory, size_t bytes) {
  return api_.mem_host_register(memory, bytes, kHostPortable);
}

gpu::Outcome CudaDriver::unregister_host(void* memory) { return api_.mem_host_unregister(memory); }

// --- virtual memory -----------------------------------------------------------------------------

gpu::Outcome CudaDriver::reserve(const Reserve& wanted, DeviceAddress& at) {
  Pointer begin = 0;
  const gpu::Outcome outcome = api_.mem_address_reserve(
      &begin, wanted.bytes, wanted.alignment_bytes, wanted.hint.value(), 0);
  at = DeviceAddress(begin);
  return outcome;
}

gpu::Outcome CudaDriver::free_addresses(AddressRange range) {
  return api_.mem_address_free(range.begin.value(), range.bytes);
}

gpu::Outcome CudaDriver::create(const Create& wanted, gpu::Handle& extent) {
  MemAllocationProp properties = properties_for(wanted.device);
  properties.requested_handle_types =
      (wanted.export_fd ? kHandlePosixFd : 0) | (wanted.export_fabric ? kHandleFabric : 0);
  properties.gpu_direct_rdma_capable = has_rdma_[static_cast<size_t>(wanted.device)] ? 1 : 0;
  AllocationHandle64 made = 0;
  const gpu::Outcome outcome = api_.mem_create(&made, wanted.bytes, &properties, 0);
  extent = made;
  return outcome;
}

gpu::Outcome CudaDriver::release(gpu::Handle extent) { return api_.mem_release(extent); }

gpu::Outcome CudaDriver::map(AddressRange at, gpu::Handle extent) {
  return api_.mem_map(at.begin.value(), at.bytes, 0, extent, 0);
}

gpu::Outcome CudaDriver::set_access(AddressRange range, int accessor, Access access) {
  const MemAccessDesc wanted{{kLocationDevice, accessor}, access_flags(access)};
  return api_.mem_set_access(range.begin.value(), range.bytes, &wanted, 1);
}

gpu::Outcome CudaDriver::unmap(AddressRange range) {
  return api_.mem_unmap(range.begin.value(), range.bytes);
}

gpu::Outcome CudaDriver::export_fd(gpu::Handle extent, int& fd) {
  return api_.mem_export_to_shareable_handle(&fd, extent, kHandlePosixFd, 0);
}

// The descriptor itself is passed where a pointer is expected.
gpu::Outcome CudaDriver::import_fd(int fd, gpu::Handle& extent) {
  AllocationHandle64 made = 0;
  const gpu::Outcome outcome = api_.mem_import_from_shareable_handle(
      &made, reinterpret_cast<void*>(static_cast<uintptr_t>(fd)), kHandlePosixFd);
  extent = made;
  return outcome;
}

gpu::Outcome CudaDriver::export_fabric(gpu::Handle extent, FabricHandle& handle) {
  MemFabricHandle made{};
  const gpu::Outcome outcome = api_.mem_export_to_shareable_handle(&made, extent, kHandleFabric, 0);
  std::memcpy(handle.data(), made.data, handle.size());
  return outcome;
}

gpu::Outcome CudaDriver::import_fabric(const FabricHandle& handle, gpu::Handle& extent) {
  MemFabricHandle wanted{};
  std::memcpy(wanted.data, handle.data(), handle.size());
  AllocationHandle64 made = 0;
  const gpu::Outcome outcome = api_.mem_import_from_shareable_handle(&made, &wanted, kHandleFabric);
  extent = made;
  return outcome;
}

}  // namespace ashlar::cuda
