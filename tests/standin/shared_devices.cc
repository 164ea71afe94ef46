// SPDX-License-Identifier: Apache-2.0
//
// Exports the functions for devices and memory that CUDA and HIP share.
#include <cstring>
#include <string>

#include "base/system_info.h"
#include "base/units.h"
#include "standin/current_device.h"

namespace ashlar::standin {
namespace {

using abi::IpcMemHandle;
using abi::MemAccessDesc;
using abi::MemAllocationProp;
using abi::MemHandle;
using abi::Pointer;

CreateOptions create_options_from(const MemAllocationProp& properties) {
  return {(properties.requested_handle_types & abi::kHandlePosixFd) != 0,
          (properties.requested_handle_types & abi::kHandleFabric) != 0};
}

Access access_from(const MemAccessDesc& wanted) {
  if (wanted.flags == abi::kAccessReadWrite) return Access::kReadWrite;
  return wanted.flags == abi::kAccessRead ? Access::kRead : Access::kNone;
}

// Returns the offset of a host allocation from a page boundary. CUDA 13 packs small allocations
// instead of aligning them to pages.
size_t packed_offset(size_t bytes) {
  constexpr size_t kOffset = 512;
  return bytes <= kMiB ? kOffset : 0;
}

}  // namespace

// --- devices

ASHLAR_STANDIN_FOR(cuInit, hipInit)(unsigned) { return kDone; }

ASHLAR_STANDIN_FOR(cuDeviceGetCount, hipGetDeviceCount)(int* count) {
  *count = static_cast<int>(Core::get().device_count());
  return kDone;
}

ASHLAR_STANDIN_FOR(cuDeviceGetUuid_v2, hipDeviceGetUuid)(abi::Uuid* uuid, int device) {
  const auto& own = Core::get().device(static_cast<size_t>(device)).properties().uuid;
  std::memcpy(uuid->bytes, own.data(), own.size());
  return kDone;
}

ASHLAR_STANDIN_FOR(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId)(char* id, int bytes, int device) {
  const std::string written = "0000:0" + std::to_string(device % 10) + ":00.0";
  std::strncpy(id, written.c_str(), static_cast<size_t>(bytes));
  return kDone;
}

ASHLAR_STANDIN_FOR(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t* bytes, int device) {
  *bytes = Core::get().device(static_cast<size_t>(device)).properties().capacity_bytes;
  return kDone;
}

ASHLAR_STANDIN_FOR(cuCtxSynchronize, hipDeviceSynchronize)() {
  return on_current_device(
      [&](size_t on) { return code_of(Core::get().device(on).synchronize_device()); });
}

ASHLAR_STANDIN_FOR(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer)(int* can, int device, int peer) {
  *can = is_device(device) && is_device(peer) && device != peer;
  return record_error(is_device(device) && is_device(peer) ? kDone : kInvalidDevice);
}

// --- plain memory

ASHLAR_STANDIN_FOR(cuMemGetInfo_v2, hipMemGetInfo)(size_t* free_bytes, size_t* total_bytes) {
  return on_current_device([&](size_t on) {
    const Result<DeviceMemoryStats> use = Core::get().device(on).memory_stats();
    if (!use.ok()) return code_of(use);
    *free_bytes = use->free_bytes;
    *total_bytes = use->total_bytes;
    return kDone;
  });
}

ASHLAR_STANDIN_FOR(cuMemAlloc_v2, hipMalloc)(Pointer* at, size_t bytes) {
  return on_current_device([&](size_t on) { return Core::get().allocate(on, number(*at), bytes); });
}

ASHLAR_STANDIN_FOR(cuMemFree_v2, hipFree)(Pointer at) {
  return on_current_device([&](size_t on) { return Core::get().free(on, at); });
}

ASHLAR_STANDIN_FOR(cuPointerGetAttributes, hipDrvPointerGetAttributes)
(unsigned count, int* attributes, void** answers, Pointer at) {
  return on_current_device([&](size_t on) {
    const Result<AddressDescription> found = Core::get().device(on).describe(DeviceAddress(at));
    if (!found.ok()) return code_of(found);
    const unsigned type = found->kind == MemoryKind::kDevice ? abi::kMemoryTypeDevice
                          : found->kind == MemoryKind::kHost ? abi::kMemoryTypeHost
                                                             : 0;
    const int owner = static_cast<int>(found->device.value());
    const Pointer begin = found->range.begin.value();
    const size_t bytes = found->range.bytes;
    for (unsigned i = 0; i < count; ++i) {
      switch (attributes[i]) {
        case abi::kPointerMemoryType: std::memcpy(answers[i], &type, sizeof type); break;
        case abi::kPointerDeviceOrdinal: std::memcpy(answers[i], &owner, sizeof owner); break;
        case abi::kPointerRangeStart: std::memcpy(answers[i], &begin, sizeof begin); break;
        case abi::kPointerRangeSize: std::memcpy(answers[i], &bytes, sizeof bytes); break;
        default: return kInvalidValue;
      }
    }
    return kDone;
  });
}

ASHLAR_STANDIN_FOR(cuIpcGetMemHandle, hipIpcGetMemHandle)(IpcMemHandle* handle, Pointer at) {
  return on_current_device([&](size_t on) { return Core::get().share(on, at, handle); });
}

ASHLAR_STANDIN_FOR(cuIpcOpenMemHandle_v2, hipIpcOpenMemHandle)
(Pointer* at, IpcMemHandle handle, unsigned) {
  return on_current_device(
      [&](size_t on) { return Core::get().open_shared(on, &handle, number(*at)); });
}

ASHLAR_STANDIN_FOR(cuIpcCloseMemHandle, hipIpcCloseMemHandle)(Pointer at) {
  return on_current_device([&](size_t on) { return Core::get().close_shared(on, at); });
}

ASHLAR_STANDIN_FOR(cuMemHostAlloc, hipHostMalloc)(void** memory, size_t bytes, unsigned) {
  return on_current_device([&](size_t on) {
    const Result<void*> made = Core::get().device(on).allocate_host(bytes + packed_offset(bytes));
    if (made.ok()) *memory = static_cast<char*>(*made) + packed_offset(bytes);
    return code_of(made);
  });
}

ASHLAR_STANDIN_FOR(cuMemFreeHost, hipHostFree)(void* memory) {
  const size_t offset = reinterpret_cast<uintptr_t>(memory) % host_page_bytes();
  return on_current_device([&](size_t on) {
    return code_of(Core::get().device(on).free_host(static_cast<char*>(memory) - offset));
  });
}

ASHLAR_STANDIN_FOR(cuMemHostRegister_v2, hipHostRegister)(void* memory, size_t bytes, unsigned) {
  return on_current_device(
      [&](size_t on) { return code_of(Core::get().device(on).register_host(memory, bytes)); });
}

ASHLAR_STANDIN_FOR(cuMemHostUnregister, hipHostUnregister)(void* memory) {
  return on_current_device(
      [&](size_t on) { return code_of(Core::get().device(on).unregister_host(memory)); });
}

// --- virtual memory

ASHLAR_STANDIN_FOR(cuMemGetAllocationGranularity, hipMemGetAllocationGranularity)
(size_t* bytes, const MemAllocationProp* properties, int) {
  const auto device = static_cast<size_t>(properties->location.id);
  *bytes = Core::get().device(device).properties().granularity_bytes;
  return kDone;
}

ASHLAR_STANDIN_FOR(cuMemAddressReserve, hipMemAddressReserve)
(Pointer* at, size_t bytes, size_t alignment, Pointer hint, unsigned long long) {
  return on_current_device(
      [&](size_t on) { return Core::get().reserve(on, bytes, alignment, hint, number(*at)); });
}

ASHLAR_STANDIN_FOR(cuMemAddressFree, hipMemAddressFree)(Pointer at, size_t bytes) {
  return on_current_device([&](size_t on) {
    return code_of(Core::get().device(on).free_addresses({DeviceAddress(at), bytes}));
  });
}

ASHLAR_STANDIN_FOR(cuMemCreate, hipMemCreate)
(MemHandle* extent, size_t bytes, const MemAllocationProp* properties, unsigned long long) {
  const auto device = static_cast<size_t>(properties->location.id);
  return record_error(
      Core::get().create(device, bytes, create_options_from(*properties), number(*extent)));
}

ASHLAR_STANDIN_FOR(cuMemRelease, hipMemRelease)(MemHandle extent) {
  return record_error(Core::get().release(extent));
}

ASHLAR_STANDIN_FOR(cuMemMap, hipMemMap)
(Pointer at, size_t bytes, size_t offset, MemHandle extent, unsigned long long) {
  if (offset != 0) return kNotSupported;
  return on_current_device([&](size_t on) {
    return Core::get().map(on, {DeviceAddress(at), bytes}, extent);
  });
}

ASHLAR_STANDIN_FOR(cuMemSetAccess, hipMemSetAccess)
(Pointer at, size_t bytes, const MemAccessDesc* wanted, size_t count) {
  return on_current_device([&](size_t on) {
    for (size_t i = 0; i < count; ++i) {
      const auto accessor = static_cast<size_t>(wanted[i].location.id);
      const int set =
          Core::get().set_access(on, {DeviceAddress(at), bytes}, accessor, access_from(wanted[i]));
      if (set != kDone) return set;
    }
    return kDone;
  });
}

ASHLAR_STANDIN_FOR(cuMemUnmap, hipMemUnmap)(Pointer at, size_t bytes) {
  return on_current_device([&](size_t on) {
    return Core::get().unmap(on, {DeviceAddress(at), bytes});
  });
}

ASHLAR_STANDIN_FOR(cuMemExportToShareableHandle, hipMemExportToShareableHandle)
(void* handle, MemHandle extent, int type, unsigned long long) {
  if (type == abi::kHandleFabric) return record_error(Core::get().export_fabric(extent, handle));
  return record_error(Core::get().export_fd(extent, *static_cast<int*>(handle)));
}

ASHLAR_STANDIN_FOR(cuMemImportFromShareableHandle, hipMemImportFromShareableHandle)
(MemHandle* extent, void* handle, int type) {
  return on_current_device([&](size_t on) {
    if (type == abi::kHandleFabric) {
      return Core::get().import_fabric(on, handle, number(*extent));
    }
    const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
    return Core::get().import_fd(on, fd, number(*extent));
  });
}

}  // namespace ashlar::standin
