// The stand-in for libamdhip64.so: devices and memory, as far as Ashlar calls them.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "standin/hip_here.h"

namespace ashlar::standin {
namespace {

using hip::Extent;
using hip::IpcMemHandle;
using hip::MemAccessDesc;
using hip::MemAllocationProp;

// A version that passes descriptors as they are.
constexpr int kVersion = 70200000;

int& device_of_this_thread() {
  thread_local int device = 0;
  return device;
}

int& last_error_of_this_thread() {
  thread_local int code = kDone;
  return code;
}

bool is_device(int device) {
  return device >= 0 && static_cast<size_t>(device) < Core::get().device_count();
}

CreateOptions exports_in(const MemAllocationProp& properties) {
  return {(properties.requested_handle_type & hip::kHandlePosixFd) != 0,
          (properties.requested_handle_type & hip::kHandleFabric) != 0};
}

Access access_in(const MemAccessDesc& wanted) {
  if (wanted.flags == hip::kAccessReadWrite) return Access::kReadWrite;
  return wanted.flags == hip::kAccessRead ? Access::kRead : Access::kNone;
}

}  // namespace

size_t device_set() { return static_cast<size_t>(device_of_this_thread()); }

int noted(int code) {
  if (code != kDone) last_error_of_this_thread() = code;
  return code;
}

// --- devices ------------------------------------------------------------------------------------

ASHLAR_STANDIN int hipInit(unsigned) { return kDone; }

ASHLAR_STANDIN const char* hipGetErrorName(int code) {
  switch (code) {
    case kInvalidValue: return "hipErrorInvalidValue";
    case kNoMemory: return "hipErrorOutOfMemory";
    case kInvalidHandle: return "hipErrorInvalidHandle";
    case kLost: return "hipErrorIllegalAddress";
    case kUnknown: return "hipErrorUnknown";
    default: return "hipErrorTbd";
  }
}

ASHLAR_STANDIN const char* hipGetErrorString(int) { return "as the stand-in driver says"; }

ASHLAR_STANDIN int hipGetLastError() { return std::exchange(last_error_of_this_thread(), kDone); }

ASHLAR_STANDIN int hipRuntimeGetVersion(int* version) {
  *version = kVersion;
  return kDone;
}

ASHLAR_STANDIN int hipGetDeviceCount(int* count) {
  *count = static_cast<int>(Core::get().device_count());
  return kDone;
}

ASHLAR_STANDIN int hipGetDevice(int* device) {
  *device = device_of_this_thread();
  return kDone;
}

ASHLAR_STANDIN int hipSetDevice(int device) {
  if (!is_device(device)) return noted(kInvalidDevice);
  device_of_this_thread() = device;
  return kDone;
}

ASHLAR_STANDIN int hipDeviceGetName(char* name, int bytes, int) {
  constexpr char kName[] = "Ashlar stand-in for AMD";
  std::strncpy(name, kName, static_cast<size_t>(bytes));
  return kDone;
}

ASHLAR_STANDIN int hipDeviceGetUuid(hip::Uuid* uuid, int device) {
  const auto& own = Core::get().device(static_cast<size_t>(device)).properties().uuid;
  std::memcpy(uuid->bytes, own.data(), own.size());
  return kDone;
}

ASHLAR_STANDIN int hipDeviceGetPCIBusId(char* id, int bytes, int device) {
  const std::string written = "0000:0" + std::to_string(device % 10) + ":00.0";
  std::strncpy(id, written.c_str(), static_cast<size_t>(bytes));
  return kDone;
}

ASHLAR_STANDIN int hipDeviceTotalMem(size_t* bytes, int device) {
  *bytes = Core::get().device(static_cast<size_t>(device)).properties().capacity_bytes;
  return kDone;
}

ASHLAR_STANDIN int hipDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == hip::kAttributeMemoryPools && Core::get().abilities().pools;
  return kDone;
}

// One less urgent than usual, and one more.
ASHLAR_STANDIN int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 1;
  *greatest = -Core::get().device(device_set()).properties().greatest_priority;
  return kDone;
}

ASHLAR_STANDIN int hipDeviceSynchronize() {
  return here([&](size_t on) { return code_of(Core::get().device(on).synchronize_device()); });
}

ASHLAR_STANDIN int hipDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = is_device(device) && is_device(peer) && device != peer;
  return is_device(device) && is_device(peer) ? kDone : noted(kInvalidDevice);
}

ASHLAR_STANDIN int hipDeviceEnablePeerAccess(int peer, unsigned) {
  return here(
      [&](size_t on) { return Core::get().enable_peer_access(on, static_cast<size_t>(peer)); });
}

ASHLAR_STANDIN int hipDeviceDisablePeerAccess(int peer) {
  return here(
      [&](size_t on) { return Core::get().disable_peer_access(on, static_cast<size_t>(peer)); });
}

// --- plain memory -------------------------------------------------------------------------------

ASHLAR_STANDIN int hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return here([&](size_t on) {
    const Result<MemoryUse> use = Core::get().device(on).memory_use();
    if (!use.ok()) return code_of(use);
    *free_bytes = use->free_bytes;
    *total_bytes = use->total_bytes;
    return kDone;
  });
}

ASHLAR_STANDIN int hipMalloc(void** at, size_t bytes) {
  return here([&](size_t on) {
    uint64_t made = 0;
    const int code = Core::get().allocate(on, made, bytes);
    *at = pointer(made);
    return code;
  });
}

ASHLAR_STANDIN int hipFree(void* at) {
  return here([&](size_t on) { return Core::get().free(on, number(at)); });
}

ASHLAR_STANDIN int hipDrvPointerGetAttributes(unsigned count, int* attributes, void** answers,
                                              void* at) {
  return here([&](size_t on) {
    const Result<AddressDescription> found = Core::get().device(on).describe(address(at));
    if (!found.ok()) return code_of(found);
    const unsigned type = found->kind == MemoryKind::kDevice ? hip::kMemoryTypeDevice
                          : found->kind == MemoryKind::kHost ? hip::kMemoryTypeHost
                                                             : 0;
    const int owner = static_cast<int>(found->device.value());
    void* begin = pointer(found->range.begin.value());
    const size_t bytes = found->range.bytes;
    for (unsigned i = 0; i < count; ++i) {
      switch (attributes[i]) {
        case hip::kPointerMemoryType: std::memcpy(answers[i], &type, sizeof type); break;
        case hip::kPointerDeviceOrdinal: std::memcpy(answers[i], &owner, sizeof owner); break;
        case hip::kPointerRangeStart: std::memcpy(answers[i], &begin, sizeof begin); break;
        case hip::kPointerRangeSize: std::memcpy(answers[i], &bytes, sizeof bytes); break;
        default: return kInvalidValue;
      }
    }
    return kDone;
  });
}

ASHLAR_STANDIN int hipIpcGetMemHandle(IpcMemHandle* handle, void* at) {
  return here([&](size_t on) { return Core::get().share(on, number(at), handle); });
}

ASHLAR_STANDIN int hipIpcOpenMemHandle(void** at, IpcMemHandle handle, unsigned) {
  return here([&](size_t on) {
    uint64_t opened = 0;
    const int code = Core::get().open_shared(on, &handle, opened);
    *at = pointer(opened);
    return code;
  });
}

ASHLAR_STANDIN int hipIpcCloseMemHandle(void* at) {
  return here([&](size_t on) { return Core::get().close_shared(on, number(at)); });
}

ASHLAR_STANDIN int hipHostMalloc(void** memory, size_t bytes, unsigned) {
  return here([&](size_t on) {
    const Result<void*> made = Core::get().device(on).allocate_host(bytes);
    if (made.ok()) *memory = *made;
    return code_of(made);
  });
}

ASHLAR_STANDIN int hipHostFree(void* memory) {
  return here([&](size_t on) { return code_of(Core::get().device(on).free_host(memory)); });
}

ASHLAR_STANDIN int hipHostRegister(void* memory, size_t bytes, unsigned) {
  return here(
      [&](size_t on) { return code_of(Core::get().device(on).register_host(memory, bytes)); });
}

ASHLAR_STANDIN int hipHostUnregister(void* memory) {
  return here([&](size_t on) { return code_of(Core::get().device(on).unregister_host(memory)); });
}

// --- virtual memory -----------------------------------------------------------------------------

ASHLAR_STANDIN int hipMemGetAllocationGranularity(size_t* bytes,
                                                  const MemAllocationProp* properties, int) {
  const auto device = static_cast<size_t>(properties->location.id);
  *bytes = Core::get().device(device).properties().granularity_bytes;
  return kDone;
}

ASHLAR_STANDIN int hipMemAddressReserve(void** at, size_t bytes, size_t alignment, void* hint,
                                        unsigned long long) {
  return here([&](size_t on) {
    uint64_t made = 0;
    const int code = Core::get().reserve(on, bytes, alignment, number(hint), made);
    *at = pointer(made);
    return code;
  });
}

ASHLAR_STANDIN int hipMemAddressFree(void* at, size_t bytes) {
  return here([&](size_t on) {
    return code_of(Core::get().device(on).free_addresses({address(at), bytes}));
  });
}

ASHLAR_STANDIN int hipMemCreate(Extent* extent, size_t bytes, const MemAllocationProp* properties,
                                unsigned long long) {
  const auto device = static_cast<size_t>(properties->location.id);
  uint64_t made = 0;
  const int code = Core::get().create(device, bytes, exports_in(*properties), made);
  *extent = handle_for<Extent>(made);
  return noted(code);
}

ASHLAR_STANDIN int hipMemRelease(Extent extent) {
  return noted(Core::get().release(number(extent)));
}

ASHLAR_STANDIN int hipMemMap(void* at, size_t bytes, size_t offset, Extent extent,
                             unsigned long long) {
  if (offset != 0) return kNotSupported;
  return here([&](size_t on) { return Core::get().map(on, {address(at), bytes}, number(extent)); });
}

ASHLAR_STANDIN int hipMemSetAccess(void* at, size_t bytes, const MemAccessDesc* wanted,
                                   size_t count) {
  return here([&](size_t on) {
    for (size_t i = 0; i < count; ++i) {
      const auto accessor = static_cast<size_t>(wanted[i].location.id);
      const int set =
          Core::get().set_access(on, {address(at), bytes}, accessor, access_in(wanted[i]));
      if (set != kDone) return set;
    }
    return kDone;
  });
}

ASHLAR_STANDIN int hipMemUnmap(void* at, size_t bytes) {
  return here([&](size_t on) {
    return code_of(Core::get().device(on).unmap({address(at), bytes}));
  });
}

ASHLAR_STANDIN int hipMemExportToShareableHandle(void* handle, Extent extent, int type,
                                                 unsigned long long) {
  if (type == hip::kHandleFabric) {
    return noted(Core::get().export_fabric(number(extent), handle));
  }
  return noted(Core::get().export_fd(number(extent), *static_cast<int*>(handle)));
}

ASHLAR_STANDIN int hipMemImportFromShareableHandle(Extent* extent, void* handle, int type) {
  return here([&](size_t on) {
    uint64_t made = 0;
    const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
    const int code = type == hip::kHandleFabric ? Core::get().import_fabric(on, handle, made)
                                                : Core::get().import_fd(on, fd, made);
    *extent = handle_for<Extent>(made);
    return code;
  });
}

}  // namespace ashlar::standin
