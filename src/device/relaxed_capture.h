// SPDX-License-Identifier: Apache-2.0
//
// Allows the calling thread to make blocking calls (allocate, free, is_done, ...) while a stream
// captures. Allocators use it, because their own device calls are not part of the capture.
#pragma once

#include <optional>

#include "ashlar/device.h"

namespace ashlar {

// Sets the calling thread's capture mode to kRelaxed for the lifetime of the object. If the mode
// cannot be set, a blocking call during a capture fails and invalidates the capture; see status().
class RelaxedCapture {
 public:
  explicit RelaxedCapture(Device& device) : RelaxedCapture(device, 1) {}
  // `capture_count` is the number of captures in progress. If it is 0, the constructor does not
  // call the device.
  RelaxedCapture(Device& device, int capture_count) : device_(device) {
    if (capture_count == 0 || !device.properties().has_capture) return;
    const Result<CaptureMode> previous = device.exchange_capture_mode(CaptureMode::kRelaxed);
    if (previous.ok()) previous_mode_ = *previous;
    status_ = previous.status();
  }
  // Restores the previous mode. Retries a failed call once, because in a thread that stays relaxed,
  // blocking calls that break a later capture would not be rejected. If the retry fails too, the
  // device is probably lost, and Device::last_error has the reason.
  ~RelaxedCapture() {
    if (!previous_mode_ || device_.exchange_capture_mode(*previous_mode_).ok()) return;
    (void)device_.exchange_capture_mode(*previous_mode_).ok();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  // Returns the error if the mode could not be set.
  const Status& status() const { return status_; }

 private:
  Device& device_;
  std::optional<CaptureMode> previous_mode_;
  Status status_;
};

}  // namespace ashlar
