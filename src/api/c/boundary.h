// SPDX-License-Identifier: Apache-2.0
//
// The boundary to C: turns errors into status codes and a thread-local message, stops exceptions,
// and reads and writes structs whose size differs between caller and library.
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

// Stores the error as this thread's last error and returns its code. Does not allocate.
ashlar_status fail(const Status& status) noexcept;
// Like fail, for an error of code ASHLAR_INVALID_ARGUMENT with this message.
ashlar_status fail_invalid_argument(const char* message) noexcept;
// Like fail, for the exception that is being handled.
ashlar_status fail_with_current_exception() noexcept;

// Returns the status code, and stores an error as this thread's last error.
inline ashlar_status code_of(const Status& status) noexcept {
  return status.ok() ? ASHLAR_OK : fail(status);
}

// Runs `function`, which may throw, and returns ASHLAR_OK or the status code of the exception. Not
// for the fast path.
template <typename Function>
ashlar_status guarded(const Function& function) noexcept {
  try {
    function();
    return ASHLAR_OK;
  } catch (...) {
    return fail_with_current_exception();
  }
}

inline StreamId stream_id(ashlar_stream stream) {
  return StreamId(reinterpret_cast<uint64_t>(stream));
}
inline PoolId pool_id(ashlar_pool pool) { return {pool.capture, pool.user}; }

// Returns the size that the caller set. Throws InvalidArgument if the size is not plausible.
inline size_t checked_struct_size(size_t struct_size) {
  constexpr size_t kMaxBytes = 4096;  // more than any version of any struct has
  if (struct_size < sizeof(size_t)) {
    throw InvalidArgument(
        Status::invalid_argument("struct_size is not set (expected sizeof the struct)"));
  }
  if (struct_size > kMaxBytes) {
    throw InvalidArgument(
        Status::invalid_argument("struct_size is too large (expected sizeof the struct)"));
  }
  return struct_size;
}

// Converts the caller's struct to the library's version of the struct; null yields the defaults.
// Throws InvalidArgument if a field is set that this version does not have.
template <typename Struct>
Struct read_struct(const Struct* given) {
  Struct read{};
  if (given == nullptr) return read;
  const size_t given_bytes = checked_struct_size(given->struct_size);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const size_t known_bytes = std::min(given_bytes, sizeof(Struct));
  const bool has_unknown = std::any_of(bytes + known_bytes, bytes + given_bytes,
                                       [](unsigned char byte) { return byte != 0; });
  if (has_unknown) {
    throw InvalidArgument(Status::unsupported(
        "the caller was compiled for a newer version and sets a field that this version lacks"));
  }
  std::memcpy(&read, given, known_bytes);
  return read;
}

// Fills the fields that the caller's struct has; fields that this version does not have become 0.
template <typename Struct>
void write_struct(const Struct& value, Struct* into) {
  const size_t given_bytes = checked_struct_size(into->struct_size);
  std::memset(into, 0, given_bytes);
  std::memcpy(into, &value, std::min(given_bytes, sizeof(Struct)));
  into->struct_size = given_bytes;
}

// Throws InvalidArgument if the pointer is null. `name` is the parameter's name in the header.
inline void require(const void* pointer, const char* name) {
  if (pointer == nullptr)
    throw InvalidArgument(Status::invalid_argument(std::string(name) + " is null"));
}

}  // namespace ashlar::c_api
