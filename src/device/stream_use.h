// Whether a stream that uses some memory is capturing: what every allocator must know before it
// hands the memory out again.
#pragma once

#include "ashlar/stream_use.h"

namespace ashlar {

// What the stream's capture has come to; kNone on a device that captures nothing.
inline Result<CaptureState> capture_state(const StreamUse& use) {
  if (!use.device->properties().has_capture) return CaptureState{};
  return use.device->capture_state(use.stream);
}

}  // namespace ashlar
