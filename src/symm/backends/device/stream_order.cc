// SPDX-License-Identifier: Apache-2.0
//
// Marks the last work with one event, which the next stream waits for.
#include "symm/backends/device/stream_order.h"

#include "base/text.h"
#include "device/relaxed_capture.h"

namespace ashlar::symm {

StreamOrder::~StreamOrder() {
  MutexLock lock(mutex_);
  destroy_event(last_work_);
  for (const auto& [id, capture] : captures_) destroy_event(capture.last_work);
}

void StreamOrder::destroy_event(const LastWork& last_work) {
  if (last_work.event) (void)device_.destroy_event(*last_work.event).ok();
}

Result<StreamOrder::Target> StreamOrder::find_capture(StreamId stream) {
  if (!device_.properties().has_capture) return Target{stream};
  const Result<CaptureState> state = device_.capture_state(stream);
  if (!state.ok()) return state.status();
  if (state->status == CaptureStatus::kNone) return Target{stream};
  if (state->status == CaptureStatus::kActive) return Target{stream, state->capture};
  return Status::invalid_argument(
      text("the capture of stream ", stream, " was invalidated: end the capture"));
}

// Copies `object`, so that its destructor never runs under the lock.
Status StreamOrder::retain(const Target& target, std::shared_ptr<const void> object) {
  if (!retain_in_graph_) {
    return Status::unsupported(text("operations on the memory of back end ",
                                    device_.properties().backend, " cannot be captured in graphs"));
  }
  MutexLock lock(mutex_);
  const auto known = captures_.find(*target.capture);
  if (known == captures_.end() || known->second.graph_marker.expired()) {
    forget_destroyed_graphs_locked();
    const auto marker = std::make_shared<const bool>();
    if (Status retained = retain_in_graph_(target.stream, marker); !retained.ok()) return retained;
    captures_[*target.capture].graph_marker = marker;
  }
  return object == nullptr ? Status() : retain_in_graph_(target.stream, object);
}

void StreamOrder::forget_destroyed_graphs_locked() {
  std::erase_if(captures_, [&](const auto& each) {
    if (!each.second.graph_marker.expired()) return false;
    destroy_event(each.second.last_work);
    return true;
  });
}

Status StreamOrder::enqueue(const Target& target, const std::function<Status()>& launch) {
  MutexLock lock(mutex_);
  LastWork& last_work = target.capture ? captures_[*target.capture].last_work : last_work_;
  return enqueue_locked(last_work, target.stream, launch);
}

Status StreamOrder::enqueue_locked(LastWork& last_work, StreamId stream,
                                   const std::function<Status()>& launch) {
  if (!last_work.event) {
    const Result<EventId> event = device_.create_event();
    if (!event.ok()) return event.status();
    last_work.event = *event;
  }
  // Waits even if the stream has the same handle as before, since the handle may refer to a new
  // stream.
  if (last_work.is_recorded) {
    if (Status waits = device_.wait_event(stream, *last_work.event); !waits.ok()) return waits;
  }
  // Records the event even if a launch fails, because earlier kernels of the call may already be in
  // the stream.
  const Status launched = launch();
  const Status recorded = device_.record_event(*last_work.event, stream);
  last_work.is_recorded = last_work.is_recorded || recorded.ok();
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

}  // namespace ashlar::symm
