// The one place where a Status becomes an exception.
#pragma once

#include <utility>

#include "ashlar/errors.h"

namespace ashlar {

inline void unwrap(Status status) {
  switch (status.kind()) {
    case StatusKind::kOk: return;
    case StatusKind::kOutOfMemory: throw OutOfMemory(std::move(status));
    case StatusKind::kUsage:
    case StatusKind::kUnsupported: throw UsageError(std::move(status));
    case StatusKind::kDeviceFault:
    case StatusKind::kDeviceLost: throw DeviceError(std::move(status));
    case StatusKind::kFormat: throw FormatError(std::move(status));
  }
}

template <typename T>
T unwrap(Result<T> result) {
  unwrap(result.status());
  return *std::move(result);
}

}  // namespace ashlar
