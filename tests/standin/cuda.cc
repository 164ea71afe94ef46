// SPDX-License-Identifier: Apache-2.0
//
// The stand-in for libcuda.so.1: the functions that CUDA and HIP do not share, such as those for
// contexts and peer access.
#include <cstring>
#include <optional>
#include <vector>

#include "device/cuda/cuda_driver.h"
#include "standin/current_device.h"

namespace ashlar::standin {
namespace {

using cuda::Context;

std::vector<size_t>& stack_of_this_thread() {
  thread_local std::vector<size_t> entered;
  return entered;
}

Context context_of(size_t device) { return reinterpret_cast<Context>(device + 1); }
size_t device_of(Context context) { return reinterpret_cast<uintptr_t>(context) - 1; }

}  // namespace

std::optional<size_t> current_device() {
  const std::vector<size_t>& entered = stack_of_this_thread();
  if (entered.empty()) return std::nullopt;
  return entered.back();
}

int record_error(int code) { return code; }

ASHLAR_STANDIN int cuGetErrorName(int code, const char** name) {
  switch (code) {
    case kDone: *name = "CUDA_SUCCESS"; return kDone;
    case kInvalidValue: *name = "CUDA_ERROR_INVALID_VALUE"; return kDone;
    case kNoMemory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return kDone;
    case kInvalidContext: *name = "CUDA_ERROR_INVALID_CONTEXT"; return kDone;
    case kInvalidHandle: *name = "CUDA_ERROR_INVALID_HANDLE"; return kDone;
    case kLost: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return kDone;
    case kNotPermitted: *name = "CUDA_ERROR_NOT_PERMITTED"; return kDone;
    case kNotSupported: *name = "CUDA_ERROR_NOT_SUPPORTED"; return kDone;
    case kSystemNotReady: *name = "CUDA_ERROR_SYSTEM_NOT_READY"; return kDone;
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

ASHLAR_STANDIN int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return is_device(ordinal) ? kDone : kInvalidDevice;
}

ASHLAR_STANDIN int cuDeviceGetName(char* name, int bytes, int) {
  constexpr char kName[] = "Ashlar stand-in GPU";
  std::strncpy(name, kName, static_cast<size_t>(bytes));
  return kDone;
}

// Always reports virtual memory. Without Features::virtual_memory, the calls that need it fail.
ASHLAR_STANDIN int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value =
      attribute == cuda::kAttributeVirtualMemory ||
      (attribute == cuda::kAttributeMemoryPools && Core::get().features().stream_ordered_pool) ||
      (attribute == cuda::kAttributeMulticast && Core::get().features().multicast);
  return kDone;
}

ASHLAR_STANDIN int cuDevicePrimaryCtxRetain(Context* context, int device) {
  if (!is_device(device)) return kInvalidDevice;
  Core::get().change_use_count(static_cast<size_t>(device), 1);
  *context = context_of(static_cast<size_t>(device));
  return kDone;
}

ASHLAR_STANDIN int cuDevicePrimaryCtxRelease_v2(int device) {
  if (!is_device(device)) return kInvalidDevice;
  Core::get().change_use_count(static_cast<size_t>(device), -1);
  return kDone;
}

ASHLAR_STANDIN int cuCtxGetCurrent(Context* context) {
  const std::optional<size_t> entered = current_device();
  *context = entered ? context_of(*entered) : nullptr;
  return kDone;
}

// Fails if the context was not retained, or if the thread must not call the driver.
ASHLAR_STANDIN int cuCtxPushCurrent_v2(Context context) {
  if (CallbackThread::is_current()) return kNotPermitted;
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
  return on_current_device([&](size_t on) {
    *least = 0;
    *greatest = -Core::get().device(on).properties().greatest_priority;
    return kDone;
  });
}

ASHLAR_STANDIN int cuCtxEnablePeerAccess(Context peer, unsigned) {
  return on_current_device(
      [&](size_t on) { return Core::get().enable_peer_access(on, device_of(peer)); });
}

ASHLAR_STANDIN int cuCtxDisablePeerAccess(Context peer) {
  return on_current_device(
      [&](size_t on) { return Core::get().disable_peer_access(on, device_of(peer)); });
}

ASHLAR_STANDIN int cuMemcpyPeerAsync(abi::Pointer to, Context to_context, abi::Pointer from,
                                     Context, size_t bytes, abi::Stream stream) {
  return on_stream(stream, [&](Device& on, StreamId id) {
    return on.copy_to_peer(DeviceIndex(device_of(to_context)), DeviceAddress(to),
                           DeviceAddress(from), bytes, id);
  });
}

ASHLAR_STANDIN int cuStreamGetCaptureInfo_v3(abi::Stream stream, int* status, uint64_t* id,
                                             abi::Graph* graph, const abi::GraphNode** tail,
                                             const abi::GraphEdgeData** edges, size_t* count) {
  *edges = nullptr;
  return capture_info(stream, {status, id, graph, tail, count});
}

ASHLAR_STANDIN int cuGraphNodeGetDependencies_v2(abi::GraphNode node, abi::GraphNode* nodes,
                                                 abi::GraphEdgeData*, size_t* count) {
  return node_dependencies(node, nodes, count);
}

}  // namespace ashlar::standin
