// SPDX-License-Identifier: Apache-2.0
//
// Whether a stream that uses some memory is capturing: what every allocator must know before it
// hands the memory out again.
#pragma once

#include "ashlar/stream.h"

namespace ashlar {

// What the stream's capture has come to; kNone on a device that captures nothing.
inline Result<CaptureState> capture_state(const DeviceStream& use) {
  if (!use.device->properties().has_capture) return CaptureState{};
  return use.device->capture_state(use.stream);
}

// Waits until the stream has passed its work so far. Of a stream that was destroyed some may be
// left, and then only waiting for the whole device is sure to cover it.
inline Status wait_for(const DeviceStream& use) {
  Status waited = use.device->synchronize_stream(use.stream);
  return waited.is(StatusKind::kInvalidArgument) ? use.device->synchronize_device() : waited;
}

}  // namespace ashlar
