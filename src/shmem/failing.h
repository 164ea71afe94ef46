// SPDX-License-Identifier: Apache-2.0
//
// How calls of OpenSHMEM fail, which has no codes for it: a sentence on standard error, and the end
// of all PEs. Inside of this library failures are exceptions, as those of the facade are; they
// become that here, and nowhere else.
#pragma once

#include <exception>
#include <string>

#include "ashlar/errors.h"
#include "base/text.h"

namespace ashlar::shmem {

// Says so, unless another PE has ended all for a reason of its own, whose status counts then.
[[noreturn]] void fail(const std::string& sentence) noexcept;
// Ends this PE, and the others as soon as they notice: at their next call, or by their launcher.
[[noreturn]] void end_all(int status) noexcept;

// The caller's mistake.
template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw InvalidArgument(Status::invalid_argument(text(parts...)));
}

inline void check(const Status& status) {
  if (!status.ok()) throw Error(status);
}
template <typename T>
T check(Result<T> result) {
  check(result.status());
  return *std::move(result);
}

// What a function of C does. Nothing leaves it but its result.
template <typename Act>
auto guarded(const char* call, const Act& act) noexcept -> decltype(act()) {
  try {
    return act();
  } catch (const Error& failed) {
    fail(std::string(call) + ": " + failed.status().message());
  } catch (const std::exception& failed) {
    fail(std::string(call) + ": " + failed.what());
  }
}

}  // namespace ashlar::shmem
