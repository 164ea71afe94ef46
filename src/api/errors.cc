// SPDX-License-Identifier: Apache-2.0
//
// Maps each kind of status to an exception.
#include "ashlar/errors.h"

#include "base/check.h"

namespace ashlar {

void throw_status(Status status) {
  switch (status.kind()) {
    case StatusKind::kOk: break;
    case StatusKind::kOutOfMemory: throw OutOfMemory(std::move(status));
    case StatusKind::kInvalidArgument:
    case StatusKind::kUnsupported: throw InvalidArgument(std::move(status));
    case StatusKind::kDeviceFault:
    case StatusKind::kDeviceLost: throw DeviceError(std::move(status));
    case StatusKind::kFormat: throw FormatError(std::move(status));
    case StatusKind::kTimeout: throw TimeoutError(std::move(status));
    case StatusKind::kPeerLost: throw PeerError(std::move(status));
    case StatusKind::kHostOutOfMemory: throw std::bad_alloc();
  }
  check_failed("throw_status needs an error", __FILE__, __LINE__);
}

}  // namespace ashlar
