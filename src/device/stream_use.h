// SPDX-License-Identifier: Apache-2.0
//
// Helpers for streams that use memory of an allocator: the capture state, and a wait.
#pragma once

#include "ashlar/stream.h"

namespace ashlar {

// Returns the stream's capture state; kNone on devices without capture.
inline Result<CaptureState> capture_state(const DeviceStream& use) {
  if (!use.device->properties().has_capture) return CaptureState{};
  return use.device->capture_state(use.stream);
}

// Waits for the stream's queued work. If the stream has been destroyed, waits for the whole device,
// which includes the stream's unfinished work.
inline Status wait_for(const DeviceStream& use) {
  Status waited = use.device->synchronize_stream(use.stream);
  return waited.is(StatusKind::kInvalidArgument) ? use.device->synchronize_device() : waited;
}

}  // namespace ashlar
