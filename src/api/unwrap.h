// SPDX-License-Identifier: Apache-2.0
//
// The one place where a Status becomes an exception.
#pragma once

#include <utility>

#include "ashlar/errors.h"

namespace ashlar {

[[noreturn]] void throw_failure(Status status);

inline void unwrap(Status status) {
  if (!status.ok()) throw_failure(std::move(status));
}

template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) throw_failure(result.status());
  return *std::move(result);
}

}  // namespace ashlar
