// SPDX-License-Identifier: Apache-2.0
//
// `EventCompletion`: represents the work in a stream up to an event, for InFlightWork. The work
// counts as completed if the device is lost. Polling the event does not disturb concurrent graph
// captures.
#pragma once

#include <memory>

#include "ashlar/device.h"
#include "device/relaxed_capture.h"
#include "symm/core/in_flight_work.h"

namespace ashlar::symm {

class EventCompletion final : public PollableWork {
 public:
  static Result<std::unique_ptr<EventCompletion>> make(Device& device) {
    const Result<EventId> event = device.create_event();
    if (!event.ok()) return event.status();
    return std::make_unique<EventCompletion>(device, *event);
  }
  EventCompletion(Device& device, EventId event) : device_(device), event_(event) {}
  ~EventCompletion() override { (void)device_.destroy_event(event_).ok(); }
  EventCompletion(const EventCompletion&) = delete;
  EventCompletion& operator=(const EventCompletion&) = delete;

  EventId event() const { return event_; }
  bool has_ended() override {
    const RelaxedCapture relaxed(device_);
    const Result<bool> done = device_.is_done(event_);
    return done.ok() ? *done : done.status().is(StatusKind::kDeviceLost);
  }
  void wait() override {
    const RelaxedCapture relaxed(device_);
    (void)device_.synchronize_event(event_).ok();
  }

 private:
  Device& device_;
  const EventId event_;
};

}  // namespace ashlar::symm
