// SPDX-License-Identifier: Apache-2.0
//
// Converts the errors that internal functions return to exceptions, for the public API.
#pragma once

#include <utility>

#include "ashlar/errors.h"

namespace ashlar {

inline void unwrap(Status status) { throw_if_error(std::move(status)); }

template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) throw_status(result.status());
  return *std::move(result);
}

}  // namespace ashlar
