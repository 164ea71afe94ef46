// SPDX-License-Identifier: Apache-2.0
//
// For the functions of the stand-ins: the device that the calling thread is in, and the drivers'
// types as the numbers that the core (core.h) keeps. shared_*.cc has what both vendors have, in
// cuda.cc and hip.cc is the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "device/gpu/driver_abi.h"
#include "standin/core.h"
#include "standin/exported.h"

namespace ashlar::standin {

namespace abi = gpu::abi;

// Each vendor's own: where the thread is, and what the driver does with a failure besides telling.
std::optional<size_t> device_entered();
int noted(int code);

// The call, given the device; a thread that has entered none is told so.
template <typename Call>
int here(const Call& call) {
  const std::optional<size_t> on = device_entered();
  return noted(on ? call(*on) : kInvalidContext);
}

inline bool is_device(int device) {
  return device >= 0 && static_cast<size_t>(device) < Core::get().device_count();
}

// The driver's 64-bit numbers are ours by another name.
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

// The call, given the device that a stream belongs to and the stream; a stream that was never made
// is refused, which is more than a driver promises.
template <typename Call>
int in_stream(abi::Stream stream, const Call& call) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    Device& device = Core::get().device(Core::get().device_of_stream(on, number(stream)));
    return code_of(call(device, StreamId(number(stream))));
  });
}

// What vendors answer with different arguments.
struct CaptureAnswers {
  int* status;
  uint64_t* id;
  abi::Graph* graph;
  const abi::GraphNode** tail;
  size_t* count;
};
int capture_info(abi::Stream stream, const CaptureAnswers& answers);
int node_dependencies(abi::GraphNode node, abi::GraphNode* nodes, size_t* count);

}  // namespace ashlar::standin
