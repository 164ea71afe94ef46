// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the exported functions: the thread's current device, and conversions between driver
// types and the integers of core.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "device/gpu/driver_abi.h"
#include "standin/core.h"
#include "standin/exported.h"

namespace ashlar::standin {

namespace abi = gpu::abi;

// Returns the thread's current device, if any. Each vendor's stand-in defines this function.
std::optional<size_t> current_device();
// Records an error as the thread's last error, if the vendor's API has one, and returns `code`.
// Each vendor's stand-in defines this function.
int record_error(int code);

// Runs `call` with the current device. Fails if the thread has no current device, or must not call
// the driver.
template <typename Call>
int on_current_device(const Call& call) {
  if (CallbackThread::is_current()) return record_error(kNotPermitted);
  const std::optional<size_t> on = current_device();
  return record_error(on ? call(*on) : kInvalidContext);
}

inline bool is_device(int device) {
  return device >= 0 && static_cast<size_t>(device) < Core::get().device_count();
}

// The drivers' 64-bit integers do not have the type uint64_t.
inline uint64_t& number(unsigned long long& value) {
  static_assert(sizeof(uint64_t) == sizeof(unsigned long long));
  return reinterpret_cast<uint64_t&>(value);
}

template <typename Tag>
uint64_t number(Tag* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

template <typename Handle>
Handle handle_for(uint64_t value) {
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(value));
}

// Runs `call` with a stream and its device. Rejects unknown streams, which a real driver might not
// do.
template <typename Call>
int on_stream(abi::Stream stream, const Call& call) {
  return on_current_device([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    Device& device = Core::get().device(Core::get().device_of_stream(on, number(stream)));
    return code_of(call(device, StreamId(number(stream))));
  });
}

// The output arguments of the query, whose order differs between vendors.
struct CaptureInfoArguments {
  int* status;
  uint64_t* id;
  abi::Graph* graph;
  const abi::GraphNode** tail;
  size_t* count;
};
int capture_info(abi::Stream stream, const CaptureInfoArguments& answers);
int node_dependencies(abi::GraphNode node, abi::GraphNode* nodes, size_t* count);

}  // namespace ashlar::standin
