// SPDX-License-Identifier: Apache-2.0
//
// Marks the last work of the group with one event, which the next stream waits for.
#include "symm/backends/device/stream_order.h"

#include "base/text.h"
#include "device/relaxed_capture.h"

namespace ashlar::symm {

StreamOrder::~StreamOrder() {
  MutexLock lock(mutex_);
  if (event_) (void)device_.destroy_event(*event_).ok();
}

Status StreamOrder::enqueue(StreamId stream, const std::function<Status()>& launch) {
  MutexLock lock(mutex_);
  if (!event_) {
    const Result<EventId> event = device_.create_event();
    if (!event.ok()) return event.status();
    event_ = *event;
  }
  // Waits even if the stream has the same handle as before, since the handle may refer to a new
  // stream.
  if (is_recorded_) {
    if (Status waits = device_.wait_event(stream, *event_); !waits.ok()) return waits;
  }
  // Records the event even if a launch fails, because earlier kernels of the call may already be in
  // the stream.
  const Status launched = launch();
  const Status recorded = device_.record_event(*event_, stream);
  is_recorded_ = is_recorded_ || recorded.ok();
  return launched.ok() ? recorded : launched;
}

BlockingStreams::~BlockingStreams() {
  MutexLock lock(mutex_);
  for (const StreamId each : idle_) (void)device_.destroy_stream(each).ok();
}

Result<StreamId> BlockingStreams::take_stream() {
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      const StreamId taken = idle_.back();
      idle_.pop_back();
      return taken;
    }
  }
  return device_.create_stream();
}

Status BlockingStreams::run(const std::function<Status(StreamId)>& launch) {
  // The calls below must not affect a concurrent capture.
  const RelaxedCapture relaxed(device_);
  const Result<StreamId> stream = take_stream();
  if (!stream.ok()) return stream.status();
  const Status launched = launch(*stream);
  const Status waited = device_.synchronize_stream(*stream);
  {
    MutexLock lock(mutex_);
    idle_.push_back(*stream);
  }
  return launched.ok() ? waited : launched;
}

Status check_not_capturing(Device& device, StreamId stream) {
  if (!device.properties().has_capture) return {};
  const Result<CaptureState> state = device.capture_state(stream);
  if (!state.ok()) return state.status();
  if (state->status == CaptureStatus::kNone) return {};
  return Status::unsupported(text("stream ", stream,
                                  " is capturing, and operations of symmetric memory cannot be "
                                  "part of a graph: call them outside of the capture"));
}

}  // namespace ashlar::symm
