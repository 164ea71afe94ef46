// SPDX-License-Identifier: Apache-2.0
//
// Queries and waits on a stream that uses memory of an allocator.
#pragma once

#include "ashlar/stream.h"

namespace ashlar {

// The stream's capture state; kNone on devices without capture.
inline Result<CaptureState> capture_state(const DeviceStream& use) {
  if (!use.device->properties().has_capture) return CaptureState{};
  return use.device->capture_state(use.stream);
}

// Waits for the stream's queued work. A destroyed stream may still have work, which only waiting
// for the whole device covers.
inline Status wait_for(const DeviceStream& use) {
  Status waited = use.device->synchronize_stream(use.stream);
  return waited.is(StatusKind::kInvalidArgument) ? use.device->synchronize_device() : waited;
}

}  // namespace ashlar
