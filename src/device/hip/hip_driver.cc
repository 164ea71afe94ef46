// The neutral functions as HIP's, one line each where that is enough: devices and memory here,
// streams and graphs in hip_driver_work.cc.
#include "device/hip/hip_driver.h"

#include <cstring>

#include "base/text.h"
#include "device/gpu/native.h"
#include "device/hip/pointer.h"

namespace ashlar::hip {
namespace {

using gpu::native;
using gpu::number_of;

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

std::string HipDriver::error_text(int code) const {
  const char* name = api_.get_error_name(code);
  const char* explained = api_.get_error_string(code);
  if (name == nullptr) return text("error ", code);
  return explained == nullptr ? std::string(name) : text(name, ": ", explained);
}

gpu::Outcome HipDriver::told(const gpu::Outcome& outcome) const {
  if (!outcome.ok()) (void)api_.get_last_error();
  return outcome;
}

// --- devices ------------------------------------------------------------------------------------

gpu::Outcome HipDriver::device_count(int& count) {
  count = 0;
  const gpu::Outcome started = told(api_.init(0));
  if (started.code == kNoDevice) return {started.call, kSuccess};
  if (!started.ok()) return started;
  if (const gpu::Outcome got = told(api_.runtime_get_version(&version_)); !got.ok()) return got;
  const gpu::Outcome counted = told(api_.get_device_count(&count));
  return counted.code == kNoDevice ? gpu::Outcome{counted.call, kSuccess} : counted;
}

gpu::Outcome HipDriver::look_at(int device, gpu::DeviceFacts& facts) {
  char name[256] = {};
  if (const gpu::Outcome got = told(api_.device_get_name(name, sizeof name, device)); !got.ok()) {
    return got;
  }
  facts.name = name;
  Uuid uuid{};
  if (const gpu::Outcome got = told(api_.device_get_uuid(&uuid, device)); !got.ok()) return got;
  std::memcpy(facts.uuid.data(), uuid.bytes, facts.uuid.size());
  char pci_id[32] = {};
  const gpu::Outcome located = told(api_.device_get_pci_bus_id(pci_id, sizeof pci_id, device));
  if (!located.ok()) return located;
  facts.pci_id = pci_id;
  int has_pools = 0;
  const gpu::Outcome pools =
      told(api_.device_get_attribute(&has_pools, kAttributeMemoryPools, device));
  facts.has_stream_pool = pools.ok() && has_pools != 0;
  if (api_.has_virtual_memory()) {
    // A device without is an answer too.
    const MemAllocationProp wanted = properties_for(device);
    const gpu::Outcome got = told(api_.mem_get_allocation_granularity(
        &facts.granularity_bytes, &wanted, kGranularityMinimum));
    if (!got.ok()) facts.granularity_bytes = 0;
  }
  return told(api_.device_total_mem(&facts.total_bytes, device));
}

// The runtime makes its context for a device when a thread first works in it, and keeps it.
gpu::Outcome HipDriver::use(int) { return {}; }

void HipDriver::leave_for_good(int) {}

gpu::Outcome HipDriver::enter(int device, gpu::Entered& entered) {
  int current = -1;
  const gpu::Outcome got = told(api_.get_device(&current));
  if (!got.ok() || current == device) return got;
  const gpu::Outcome changed = told(api_.set_device(device));
  entered.is_changed = changed.ok();
  entered.before = static_cast<gpu::Handle>(current);
  return changed;
}

void HipDriver::leave(const gpu::Entered& entered) {
  if (entered.is_changed) (void)told(api_.set_device(static_cast<int>(entered.before)));
}

Result<std::vector<ProcessUse>> HipDriver::processes(const gpu::DeviceFacts&) {
  return Status::unsupported("HIP does not tell which processes use a device");
}

// As in CUDA, the most urgent is the most negative; what is less urgent than usual is not used.
gpu::Outcome HipDriver::greatest_priority(int& priority) {
  int least = 0;
  int greatest = 0;
  const gpu::Outcome got = told(api_.device_get_stream_priority_range(&least, &greatest));
  priority = got.ok() && greatest < 0 ? -greatest : 0;
  return got;
}

gpu::Outcome HipDriver::memory_use(MemoryUse& use) {
  return told(api_.mem_get_info(&use.free_bytes, &use.total_bytes));
}

gpu::Outcome HipDriver::can_access_peer(int device, int peer, bool& can) {
  int answer = 0;
  const gpu::Outcome got = told(api_.device_can_access_peer(&answer, device, peer));
  can = answer != 0;
  return got;
}

gpu::Outcome HipDriver::enable_peer_access(int peer) {
  return told(api_.device_enable_peer_access(peer, 0));
}

gpu::Outcome HipDriver::disable_peer_access(int peer) {
  return told(api_.device_disable_peer_access(peer));
}

// --- plain memory -------------------------------------------------------------------------------

gpu::Outcome HipDriver::allocate(size_t bytes, DeviceAddress& at) {
  void* made = nullptr;
  const gpu::Outcome outcome = told(api_.malloc(&made, bytes));
  at = DeviceAddress(number_of(made));
  return outcome;
}

gpu::Outcome HipDriver::free(DeviceAddress at) { return told(api_.free(pointer(at))); }

// An address that it does not know is an error for HIP in some versions, and zeros in others.
gpu::Outcome HipDriver::locate(DeviceAddress at, gpu::Location& location) {
  unsigned type = 0;
  int device = 0;
  void* begin = nullptr;
  size_t bytes = 0;
  int attributes[] = {kPointerMemoryType, kPointerDeviceOrdinal, kPointerRangeStart,
                      kPointerRangeSize};
  void* answers[] = {&type, &device, &begin, &bytes};
  const gpu::Outcome got =
      told(api_.drv_pointer_get_attributes(4, attributes, answers, pointer(at)));
  if (!got.ok()) return {got.call, kSuccess};
  if (bytes == 0 || (type != kMemoryTypeHost && type != kMemoryTypeDevice)) return got;
  location.kind = type == kMemoryTypeHost ? MemoryKind::kHost : MemoryKind::kDevice;
  location.device = device < 0 ? 0 : device;
  location.range = {DeviceAddress(number_of(begin)), bytes};
  return got;
}

gpu::Outcome HipDriver::share(DeviceAddress at, AllocationHandle& handle) {
  IpcMemHandle made{};
  const gpu::Outcome outcome = told(api_.ipc_get_mem_handle(&made, pointer(at)));
  std::memcpy(handle.data(), made.reserved, handle.size());
  return outcome;
}

gpu::Outcome HipDriver::open_shared(const AllocationHandle& handle, DeviceAddress& at) {
  IpcMemHandle wanted{};
  std::memcpy(wanted.reserved, handle.data(), handle.size());
  void* opened = nullptr;
  const gpu::Outcome outcome =
      told(api_.ipc_open_mem_handle(&opened, wanted, kIpcLazyEnablePeerAccess));
  at = DeviceAddress(number_of(opened));
  return outcome;
}

gpu::Outcome HipDriver::close_shared(DeviceAddress at) {
  return told(api_.ipc_close_mem_handle(pointer(at)));
}

gpu::Outcome HipDriver::allocate_host(size_t bytes, void*& memory) {
  return told(api_.host_malloc(&memory, bytes, kHostPortable));
}

gpu::Outcome HipDriver::free_host(void* memory) { return told(api_.host_free(memory)); }

gpu::Outcome HipDriver::register_host(void* memory, size_t bytes) {
  return told(api_.host_register(memory, bytes, kHostPortable));
}

gpu::Outcome HipDriver::unregister_host(void* memory) { return told(api_.host_unregister(memory)); }

// --- virtual memory -----------------------------------------------------------------------------

gpu::Outcome HipDriver::reserve(const Reserve& wanted, DeviceAddress& at) {
  void* begin = nullptr;
  const gpu::Outcome outcome = told(api_.mem_address_reserve(
      &begin, wanted.bytes, wanted.alignment_bytes, pointer(wanted.hint), 0));
  at = DeviceAddress(number_of(begin));
  return outcome;
}

gpu::Outcome HipDriver::free_addresses(AddressRange range) {
  return told(api_.mem_address_free(pointer(range.begin), range.bytes));
}

gpu::Outcome HipDriver::create(const Create& wanted, gpu::Handle& extent) {
  MemAllocationProp properties = properties_for(wanted.device);
  properties.requested_handle_type =
      (wanted.export_fd ? kHandlePosixFd : 0) | (wanted.export_fabric ? kHandleFabric : 0);
  Extent made = nullptr;
  const gpu::Outcome outcome = told(api_.mem_create(&made, wanted.bytes, &properties, 0));
  extent = number_of(made);
  return outcome;
}

gpu::Outcome HipDriver::release(gpu::Handle extent) {
  return told(api_.mem_release(native<Extent>(extent)));
}

gpu::Outcome HipDriver::map(AddressRange at, gpu::Handle extent) {
  return told(api_.mem_map(pointer(at.begin), at.bytes, 0, native<Extent>(extent), 0));
}

gpu::Outcome HipDriver::set_access(AddressRange range, int accessor, Access access) {
  const MemAccessDesc wanted{{kLocationDevice, accessor}, access_flags(access)};
  return told(api_.mem_set_access(pointer(range.begin), range.bytes, &wanted, 1));
}

gpu::Outcome HipDriver::unmap(AddressRange range) {
  return told(api_.mem_unmap(pointer(range.begin), range.bytes));
}

gpu::Outcome HipDriver::export_fd(gpu::Handle extent, int& fd) {
  return told(api_.mem_export_to_shareable_handle(&fd, native<Extent>(extent), kHandlePosixFd, 0));
}

gpu::Outcome HipDriver::import_fd(int fd, gpu::Handle& extent) {
  Extent made = nullptr;
  void* descriptor = version_ >= kFirstVersionWithFdAsPointer
                         ? reinterpret_cast<void*>(static_cast<uintptr_t>(fd))
                         : static_cast<void*>(&fd);
  const gpu::Outcome outcome =
      told(api_.mem_import_from_shareable_handle(&made, descriptor, kHandlePosixFd));
  extent = number_of(made);
  return outcome;
}

gpu::Outcome HipDriver::export_fabric(gpu::Handle extent, FabricHandle& handle) {
  MemFabricHandle made{};
  const gpu::Outcome outcome =
      told(api_.mem_export_to_shareable_handle(&made, native<Extent>(extent), kHandleFabric, 0));
  std::memcpy(handle.data(), made.data, handle.size());
  return outcome;
}

gpu::Outcome HipDriver::import_fabric(const FabricHandle& handle, gpu::Handle& extent) {
  MemFabricHandle wanted{};
  std::memcpy(wanted.data, handle.data(), handle.size());
  Extent made = nullptr;
  const gpu::Outcome outcome =
      told(api_.mem_import_from_shareable_handle(&made, &wanted, kHandleFabric));
  extent = number_of(made);
  return outcome;
}

}  // namespace ashlar::hip
