// The stand-in for libcuda.so.1: devices, contexts and memory, as far as Ashlar calls them.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "standin/cuda_here.h"

namespace ashlar::standin {
namespace {

using cuda::Context;
using cuda::IpcMemHandle;
using cuda::MemAccessDesc;
using cuda::MemAllocationProp;
using cuda::Pointer;

std::vector<size_t>& stack_of_this_thread() {
  thread_local std::vector<size_t> entered;
  return entered;
}

Context context_of(size_t device) { return reinterpret_cast<Context>(device + 1); }
size_t device_of(Context context) { return reinterpret_cast<uintptr_t>(context) - 1; }
bool is_device(int device) {
  return device >= 0 && static_cast<size_t>(device) < Core::get().device_count();
}

CreateOptions exports_in(const MemAllocationProp& properties) {
  return {(properties.requested_handle_types & cuda::kHandlePosixFd) != 0,
          (properties.requested_handle_types & cuda::kHandleFabric) != 0};
}

Access access_in(const MemAccessDesc& wanted) {
  if (wanted.flags == cuda::kAccessReadWrite) return Access::kReadWrite;
  return wanted.flags == cuda::kAccessRead ? Access::kRead : Access::kNone;
}

}  // namespace

std::optional<size_t> device_entered() {
  const std::vector<size_t>& entered = stack_of_this_thread();
  if (entered.empty()) return std::nullopt;
  return entered.back();
}

// --- devices ------------------------------------------------------------------------------------

ASHLAR_STANDIN int cuInit(unsigned) { return kDone; }

ASHLAR_STANDIN int cuGetErrorName(int code, const char** name) {
  switch (code) {
    case kDone: *name = "CUDA_SUCCESS"; return kDone;
    case kInvalidValue: *name = "CUDA_ERROR_INVALID_VALUE"; return kDone;
    case kNoMemory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return kDone;
    case kInvalidContext: *name = "CUDA_ERROR_INVALID_CONTEXT"; return kDone;
    case kInvalidHandle: *name = "CUDA_ERROR_INVALID_HANDLE"; return kDone;
    case kLost: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return kDone;
    case kUnknown: *name = "CUDA_ERROR_UNKNOWN"; return kDone;
    default: *name = nullptr; return kInvalidValue;
  }
}

ASHLAR_STANDIN int cuGetErrorString(int code, const char** explained) {
  const char* name = nullptr;
  const int known = cuGetErrorName(code, &name);
  *explained = known == kDone ? "as the stand-in driver says" : nullptr;
  return known;
}

ASHLAR_STANDIN int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(Core::get().device_count());
  return kDone;
}

ASHLAR_STANDIN int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return is_device(ordinal) ? kDone : kInvalidDevice;
}

ASHLAR_STANDIN int cuDeviceGetName(char* name, int bytes, int) {
  constexpr char kName[] = "Ashlar stand-in GPU";
  std::strncpy(name, kName, static_cast<size_t>(bytes));
  return kDone;
}

ASHLAR_STANDIN int cuDeviceGetUuid_v2(cuda::Uuid* uuid, int device) {
  const auto& own = Core::get().device(static_cast<size_t>(device)).properties().uuid;
  std::memcpy(uuid->bytes, own.data(), own.size());
  return kDone;
}

ASHLAR_STANDIN int cuDeviceGetPCIBusId(char* id, int bytes, int device) {
  const std::string written = "0000:0" + std::to_string(device % 10) + ":00.0";
  std::strncpy(id, written.c_str(), static_cast<size_t>(bytes));
  return kDone;
}

ASHLAR_STANDIN int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = Core::get().device(static_cast<size_t>(device)).properties().capacity_bytes;
  return kDone;
}

// What is claimed is not always kept: see Abilities.
ASHLAR_STANDIN int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == cuda::kAttributeVirtualMemory ||
           (attribute == cuda::kAttributeMemoryPools && Core::get().abilities().pools);
  return kDone;
}

ASHLAR_STANDIN int cuDevicePrimaryCtxRetain(Context* context, int device) {
  if (!is_device(device)) return kInvalidDevice;
  Core::get().use(static_cast<size_t>(device), 1);
  *context = context_of(static_cast<size_t>(device));
  return kDone;
}

ASHLAR_STANDIN int cuDevicePrimaryCtxRelease_v2(int device) {
  if (!is_device(device)) return kInvalidDevice;
  Core::get().use(static_cast<size_t>(device), -1);
  return kDone;
}

ASHLAR_STANDIN int cuCtxGetCurrent(Context* context) {
  const std::optional<size_t> entered = device_entered();
  *context = entered ? context_of(*entered) : nullptr;
  return kDone;
}

// Without a use of the device, its context is not there.
ASHLAR_STANDIN int cuCtxPushCurrent_v2(Context context) {
  if (context == nullptr || Core::get().use_count(device_of(context)) < 1) return kInvalidContext;
  stack_of_this_thread().push_back(device_of(context));
  return kDone;
}

ASHLAR_STANDIN int cuCtxPopCurrent_v2(Context* context) {
  std::vector<size_t>& entered = stack_of_this_thread();
  if (entered.empty()) return kInvalidContext;
  *context = context_of(entered.back());
  entered.pop_back();
  return kDone;
}

ASHLAR_STANDIN int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return here([&](size_t on) {
    *least = 0;
    *greatest = -Core::get().device(on).properties().greatest_priority;
    return kDone;
  });
}

ASHLAR_STANDIN int cuCtxSynchronize() {
  return here([&](size_t on) { return code_of(Core::get().device(on).synchronize_device()); });
}

ASHLAR_STANDIN int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = is_device(device) && is_device(peer) && device != peer;
  return is_device(device) && is_device(peer) ? kDone : kInvalidDevice;
}

ASHLAR_STANDIN int cuCtxEnablePeerAccess(Context peer, unsigned) {
  return here([&](size_t on) { return Core::get().enable_peer_access(on, device_of(peer)); });
}

ASHLAR_STANDIN int cuCtxDisablePeerAccess(Context peer) {
  return here([&](size_t on) { return Core::get().disable_peer_access(on, device_of(peer)); });
}

// --- plain memory -------------------------------------------------------------------------------

ASHLAR_STANDIN int cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  return here([&](size_t on) {
    const Result<MemoryUse> use = Core::get().device(on).memory_use();
    if (!use.ok()) return code_of(use);
    *free_bytes = use->free_bytes;
    *total_bytes = use->total_bytes;
    return kDone;
  });
}

ASHLAR_STANDIN int cuMemAlloc_v2(Pointer* at, size_t bytes) {
  return here([&](size_t on) { return Core::get().allocate(on, number(*at), bytes); });
}

ASHLAR_STANDIN int cuMemFree_v2(Pointer at) {
  return here([&](size_t on) { return Core::get().free(on, at); });
}

ASHLAR_STANDIN int cuPointerGetAttributes(unsigned count, int* attributes, void** answers,
                                          Pointer at) {
  return here([&](size_t on) {
    const Result<AddressDescription> found = Core::get().device(on).describe(DeviceAddress(at));
    if (!found.ok()) return code_of(found);
    const unsigned type = found->kind == MemoryKind::kDevice ? cuda::kMemoryTypeDevice
                          : found->kind == MemoryKind::kHost ? cuda::kMemoryTypeHost
                                                             : 0;
    const int owner = static_cast<int>(found->device.value());
    const Pointer begin = found->range.begin.value();
    const size_t bytes = found->range.bytes;
    for (unsigned i = 0; i < count; ++i) {
      switch (attributes[i]) {
        case cuda::kPointerMemoryType: std::memcpy(answers[i], &type, sizeof type); break;
        case cuda::kPointerDeviceOrdinal: std::memcpy(answers[i], &owner, sizeof owner); break;
        case cuda::kPointerRangeStart: std::memcpy(answers[i], &begin, sizeof begin); break;
        case cuda::kPointerRangeSize: std::memcpy(answers[i], &bytes, sizeof bytes); break;
        default: return kInvalidValue;
      }
    }
    return kDone;
  });
}

ASHLAR_STANDIN int cuIpcGetMemHandle(IpcMemHandle* handle, Pointer at) {
  return here([&](size_t on) { return Core::get().share(on, at, handle); });
}

ASHLAR_STANDIN int cuIpcOpenMemHandle_v2(Pointer* at, IpcMemHandle handle, unsigned) {
  return here([&](size_t on) { return Core::get().open_shared(on, &handle, number(*at)); });
}

ASHLAR_STANDIN int cuIpcCloseMemHandle(Pointer at) {
  return here([&](size_t on) { return Core::get().close_shared(on, at); });
}

ASHLAR_STANDIN int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  return here([&](size_t on) {
    const Result<void*> made = Core::get().device(on).allocate_host(bytes);
    if (made.ok()) *memory = *made;
    return code_of(made);
  });
}

ASHLAR_STANDIN int cuMemFreeHost(void* memory) {
  return here([&](size_t on) { return code_of(Core::get().device(on).free_host(memory)); });
}

ASHLAR_STANDIN int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned) {
  return here(
      [&](size_t on) { return code_of(Core::get().device(on).register_host(memory, bytes)); });
}

ASHLAR_STANDIN int cuMemHostUnregister(void* memory) {
  return here([&](size_t on) { return code_of(Core::get().device(on).unregister_host(memory)); });
}

// --- virtual memory -----------------------------------------------------------------------------

ASHLAR_STANDIN int cuMemGetAllocationGranularity(size_t* bytes, const MemAllocationProp* properties,
                                                 int) {
  const auto device = static_cast<size_t>(properties->location.id);
  *bytes = Core::get().device(device).properties().granularity_bytes;
  return kDone;
}

ASHLAR_STANDIN int cuMemAddressReserve(Pointer* at, size_t bytes, size_t alignment, Pointer hint,
                                       unsigned long long) {
  return here(
      [&](size_t on) { return Core::get().reserve(on, bytes, alignment, hint, number(*at)); });
}

ASHLAR_STANDIN int cuMemAddressFree(Pointer at, size_t bytes) {
  return here([&](size_t on) {
    return code_of(Core::get().device(on).free_addresses({DeviceAddress(at), bytes}));
  });
}

ASHLAR_STANDIN int cuMemCreate(cuda::AllocationHandle64* extent, size_t bytes,
                               const MemAllocationProp* properties, unsigned long long) {
  const auto device = static_cast<size_t>(properties->location.id);
  return Core::get().create(device, bytes, exports_in(*properties), number(*extent));
}

ASHLAR_STANDIN int cuMemRelease(cuda::AllocationHandle64 extent) {
  return Core::get().release(extent);
}

ASHLAR_STANDIN int cuMemMap(Pointer at, size_t bytes, size_t offset,
                            cuda::AllocationHandle64 extent, unsigned long long) {
  if (offset != 0) return kNotSupported;
  return here([&](size_t on) { return Core::get().map(on, {DeviceAddress(at), bytes}, extent); });
}

ASHLAR_STANDIN int cuMemSetAccess(Pointer at, size_t bytes, const MemAccessDesc* wanted,
                                  size_t count) {
  return here([&](size_t on) {
    for (size_t i = 0; i < count; ++i) {
      const auto accessor = static_cast<size_t>(wanted[i].location.id);
      const int set =
          Core::get().set_access(on, {DeviceAddress(at), bytes}, accessor, access_in(wanted[i]));
      if (set != kDone) return set;
    }
    return kDone;
  });
}

ASHLAR_STANDIN int cuMemUnmap(Pointer at, size_t bytes) {
  return here([&](size_t on) {
    return code_of(Core::get().device(on).unmap({DeviceAddress(at), bytes}));
  });
}

ASHLAR_STANDIN int cuMemExportToShareableHandle(void* handle, cuda::AllocationHandle64 extent,
                                                int type, unsigned long long) {
  if (type == cuda::kHandleFabric) return Core::get().export_fabric(extent, handle);
  return Core::get().export_fd(extent, *static_cast<int*>(handle));
}

ASHLAR_STANDIN int cuMemImportFromShareableHandle(cuda::AllocationHandle64* extent, void* handle,
                                                  int type) {
  return here([&](size_t on) {
    if (type == cuda::kHandleFabric) {
      return Core::get().import_fabric(on, handle, number(*extent));
    }
    const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
    return Core::get().import_fd(on, fd, number(*extent));
  });
}

}  // namespace ashlar::standin
