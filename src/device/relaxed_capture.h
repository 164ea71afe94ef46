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
  explicit RelaxedCapture(Device& device) : device_(device) {
    if (!device.properties().has_capture) return;
    const Result<CaptureMode> before = device.exchange_capture_mode(CaptureMode::kRelaxed);
    if (before.ok()) before_ = *before;
    status_ = before.status();
  }
  // Tried twice: a thread that stays relaxed would break the rules of later captures unseen.
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
