// For the functions of the CUDA stand-in: the device whose context the calling thread has entered,
// and the driver's types as the numbers that the core (core.h) keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "device/cuda/cuda_abi.h"
#include "standin/core.h"
#include "standin/exported.h"

namespace ashlar::standin {

std::optional<size_t> device_entered();

// The call, given the device; a thread that has entered none is told so.
template <typename Call>
int here(const Call& call) {
  const std::optional<size_t> on = device_entered();
  return on ? call(*on) : kInvalidContext;
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

}  // namespace ashlar::standin
