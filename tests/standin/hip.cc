// SPDX-License-Identifier: Apache-2.0
//
// The stand-in for libamdhip64.so: the functions that CUDA and HIP do not share, such as those for
// the current device, the last error and peer access.
#include <cstring>
#include <optional>
#include <utility>

#include "device/hip/hip_driver.h"
#include "standin/current_device.h"

namespace ashlar::standin {
namespace {

// A version whose import takes the descriptor itself, not a pointer to it.
constexpr int kVersion = 70200000;

int& device_of_this_thread() {
  thread_local int device = 0;
  return device;
}

int& last_error_of_this_thread() {
  thread_local int code = kDone;
  return code;
}

}  // namespace

std::optional<size_t> current_device() { return static_cast<size_t>(device_of_this_thread()); }

// Sets the error that hipGetLastError returns.
int record_error(int code) {
  if (code != kDone) last_error_of_this_thread() = code;
  return code;
}

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

ASHLAR_STANDIN int hipGetDevice(int* device) {
  *device = device_of_this_thread();
  return kDone;
}

ASHLAR_STANDIN int hipSetDevice(int device) {
  if (CallbackThread::is_current()) return record_error(kNotPermitted);
  if (!is_device(device)) return record_error(kInvalidDevice);
  device_of_this_thread() = device;
  return kDone;
}

ASHLAR_STANDIN int hipDeviceGetName(char* name, int bytes, int) {
  constexpr char kName[] = "Ashlar stand-in for AMD";
  std::strncpy(name, kName, static_cast<size_t>(bytes));
  return kDone;
}

ASHLAR_STANDIN int hipDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == hip::kAttributeMemoryPools && Core::get().features().stream_ordered_pool;
  return kDone;
}

// Offers one priority below the default and some above it.
ASHLAR_STANDIN int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return on_current_device([&](size_t on) {
    *least = 1;
    *greatest = -Core::get().device(on).properties().greatest_priority;
    return kDone;
  });
}

ASHLAR_STANDIN int hipDeviceEnablePeerAccess(int peer, unsigned) {
  return on_current_device(
      [&](size_t on) { return Core::get().enable_peer_access(on, static_cast<size_t>(peer)); });
}

ASHLAR_STANDIN int hipDeviceDisablePeerAccess(int peer) {
  return on_current_device(
      [&](size_t on) { return Core::get().disable_peer_access(on, static_cast<size_t>(peer)); });
}

ASHLAR_STANDIN int hipMemcpyPeerAsync(abi::Pointer to, int to_device, abi::Pointer from, int,
                                      size_t bytes, abi::Stream stream) {
  return on_stream(stream, [&](Device& on, StreamId id) {
    return on.copy_to_peer(DeviceIndex(static_cast<uint64_t>(to_device)), DeviceAddress(to),
                           DeviceAddress(from), bytes, id);
  });
}

ASHLAR_STANDIN int hipStreamGetCaptureInfo_v2(abi::Stream stream, int* status, uint64_t* id,
                                              abi::Graph* graph, const abi::GraphNode** tail,
                                              size_t* count) {
  return capture_info(stream, {status, id, graph, tail, count});
}

ASHLAR_STANDIN int hipGraphNodeGetDependencies(abi::GraphNode node, abi::GraphNode* nodes,
                                               size_t* count) {
  return node_dependencies(node, nodes, count);
}

}  // namespace ashlar::standin
