// SPDX-License-Identifier: Apache-2.0
//
// The border to C: failures become codes and a message of the thread, exceptions stop here, and
// structs that grew since the caller was compiled are read and written as far as both know them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "ashlar/c/ashlar.h"
#include "ashlar/errors.h"
#include "ashlar/status.h"
#include "ashlar/types.h"

namespace ashlar::c_api {

// Remembers the failure for this thread, and gives its code. Allocates nothing.
ashlar_status failed(const Status& status) noexcept;
ashlar_status failed_usage(const char* message) noexcept;
// Of the exception that is being handled.
ashlar_status failed_by_exception() noexcept;

inline ashlar_status code_of(const Status& status) noexcept {
  return status.ok() ? ASHLAR_OK : failed(status);
}

// Runs `act`, which may throw what the C++ facades throw. For all but the fast path.
template <typename Act>
ashlar_status guarded(const Act& act) noexcept {
  try {
    act();
    return ASHLAR_OK;
  } catch (...) {
    return failed_by_exception();
  }
}

inline StreamId stream_id(ashlar_stream stream) {
  return StreamId(reinterpret_cast<uint64_t>(stream));
}
inline ashlar_stream stream_handle(StreamId stream) {
  return reinterpret_cast<ashlar_stream>(stream.value());
}
inline DeviceAddress address_of(const void* memory) {
  return DeviceAddress(reinterpret_cast<uint64_t>(memory));
}
inline void* memory_at(DeviceAddress address) { return reinterpret_cast<void*>(address.value()); }
inline PoolId pool_id(ashlar_pool pool) { return {pool.capture, pool.user}; }

// What a struct of the caller's comes to here; null: all defaults. Throws InvalidArgument: of no
// size, or with a field that this version does not know.
template <typename Struct>
Struct read_struct(const Struct* given) {
  Struct read{};
  if (given == nullptr) return read;
  const size_t given_bytes = given->struct_size;
  if (given_bytes < sizeof(size_t)) {
    throw InvalidArgument(
        Status::invalid_argument("struct_size is not set (expected sizeof the struct)"));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const size_t known_bytes = std::min(given_bytes, sizeof(Struct));
  // A size that no version could have is not a reason to read on for ever.
  constexpr size_t kMostBytes = 4096;
  if (given_bytes > kMostBytes) {
    throw InvalidArgument(
        Status::invalid_argument("struct_size is too large (expected sizeof the struct)"));
  }
  const bool has_unknown = std::any_of(bytes + known_bytes, bytes + given_bytes,
                                       [](unsigned char byte) { return byte != 0; });
  if (has_unknown) {
    throw InvalidArgument(Status::unsupported(
        "the caller was compiled for a newer version, and uses a field that this one lacks"));
  }
  std::memcpy(&read, given, known_bytes);
  return read;
}

// Fills the caller's struct as far as it goes; what we do not know of it becomes 0.
template <typename Struct>
void write_struct(const Struct& value, Struct* into) {
  const size_t given_bytes = into->struct_size;
  if (given_bytes < sizeof(size_t)) {
    throw InvalidArgument(
        Status::invalid_argument("struct_size is not set (expected sizeof the struct)"));
  }
  constexpr size_t kMostBytes = 4096;
  if (given_bytes > kMostBytes) {
    throw InvalidArgument(
        Status::invalid_argument("struct_size is too large (expected sizeof the struct)"));
  }
  std::memset(into, 0, given_bytes);
  std::memcpy(into, &value, std::min(given_bytes, sizeof(Struct)));
  into->struct_size = given_bytes;
}

// Throws InvalidArgument for the first null. Names as in the header.
inline void require(const void* pointer, const char* name) {
  if (pointer == nullptr)
    throw InvalidArgument(Status::invalid_argument(std::string(name) + " is null"));
}

}  // namespace ashlar::c_api
