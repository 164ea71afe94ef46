// SPDX-License-Identifier: Apache-2.0
//
// Permission for the calling thread to make the calls that might wait unseen (allocate, free,
// allocate_host, is_done and the like) although a capture goes on: for allocators, which know that
// what they do is no part of the capture.
#pragma once

#include <optional>

#include "ashlar/device.h"

namespace ashlar {

// Holds while it lives. Where the device does not grant it, the calls themselves will say so.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(Device& device) : RelaxedCapture(device, 1) {}
  // For a caller who knows how many captures go on: with none, the device is not even asked.
  RelaxedCapture(Device& device, int capture_count) : device_(device) {
    if (capture_count == 0 || !device.properties().has_capture) return;
    const Result<CaptureMode> before = device.exchange_capture_mode(CaptureMode::kRelaxed);
    if (before.ok()) before_ = *before;
    status_ = before.status();
  }
  // Tried twice: a thread that stays relaxed breaks the rules of later captures unseen. Should the
  // device refuse twice, the thread does stay so, and Device::last_error says why; a driver that
  // cannot even change a thread's mode is lost, and captures nothing any more.
  ~RelaxedCapture() {
    if (!before_ || device_.exchange_capture_mode(*before_).ok()) return;
    (void)device_.exchange_capture_mode(*before_).ok();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  // Why the device did not grant it; ok if it did. Going on regardless may break a capture.
  const Status& status() const { return status_; }

 private:
  Device& device_;
  std::optional<CaptureMode> before_;
  Status status_;
};

}  // namespace ashlar
