// SPDX-License-Identifier: Apache-2.0
//
// Allows the calling thread to make blocking calls (allocate, free, is_done, ...) while another
// stream captures. For allocators, whose calls are not part of the capture.
#pragma once

#include <optional>

#include "ashlar/device.h"

namespace ashlar {

// Sets the thread's capture mode to kRelaxed for its lifetime. If the device refuses, the blocking
// calls report it themselves.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(Device& device) : RelaxedCapture(device, 1) {}
  // Does not call the device if `capture_count` is 0.
  RelaxedCapture(Device& device, int capture_count) : device_(device) {
    if (capture_count == 0 || !device.properties().has_capture) return;
    const Result<CaptureMode> before = device.exchange_capture_mode(CaptureMode::kRelaxed);
    if (before.ok()) before_ = *before;
    status_ = before.status();
  }
  // Retries once: a thread that stays relaxed would violate the rules of later captures unnoticed.
  // If the retry fails too, Device::last_error has the reason; such a device is probably lost.
  ~RelaxedCapture() {
    if (!before_ || device_.exchange_capture_mode(*before_).ok()) return;
    (void)device_.exchange_capture_mode(*before_).ok();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  // Not ok: the mode was not changed; blocking calls may invalidate a capture.
  const Status& status() const { return status_; }

 private:
  Device& device_;
  std::optional<CaptureMode> before_;
  Status status_;
};

}  // namespace ashlar
