// SPDX-License-Identifier: Apache-2.0
//
// Queries streams, and records and recycles events.
#include "engine/paged/stream_monitor.h"

#include <utility>

#include "base/host_memory.h"
#include "device/relaxed_capture.h"
#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {

Result<bool> StreamMonitor::query_idle(StreamId stream) {
  // While captures are in progress, any stream may begin one at any time, so no query is safe.
  if (capture_count() > 0) return Status::invalid_argument("a capture is in progress");
  const RelaxedCapture relaxed(device_);
  if (!relaxed.status().ok()) return relaxed.status();
  if (device_.properties().has_capture) {
    const Result<CaptureState> state = device_.capture_state(stream);
    if (!state.ok()) return state.status();
    if (state->status != CaptureStatus::kNone) {
      return Status::invalid_argument("the stream is capturing");
    }
  }
  return device_.is_idle(stream);
}

bool StreamMonitor::is_idle(StreamId stream) {
  const Result<bool> idle = query_idle(stream);
  if (!idle.ok() && !idle.status().is(StatusKind::kInvalidArgument)) error_.record(idle.status());
  return idle.ok() && *idle;
}

Result<EventId> StreamMonitor::record_event(StreamId stream) {
  Result<EventId> event = acquire_event();
  if (!event.ok()) {
    error_.record(event.status());
    return event;
  }
  ScopeGuard undo([&]() ASHLAR_REQUIRES(engine_lock) { recycle(*event); });
  Status recorded = device_.record_event(*event, stream);
  // A destroyed stream is not a device failure: the error is returned, but not deferred.
  if (!recorded.ok() && !recorded.is(StatusKind::kInvalidArgument)) error_.record(recorded);
  if (!recorded.ok()) return recorded;
  undo.dismiss();
  return event;
}

Result<EventId> StreamMonitor::acquire_event() {
  if (unused_events_.empty()) {
    reserve_amortized(unused_events_, created_event_count_ + 1);
    Result<EventId> created = device_.create_event();
    if (created.ok()) ++created_event_count_;
    return created;
  }
  const EventId event = unused_events_.back();
  unused_events_.pop_back();
  return event;
}

bool StreamMonitor::recycle_if_done(EventId event) {
  const Result<bool> done = device_.is_done(event);
  if (!done.ok()) error_.record(done.status());
  if (!done.ok() || !*done) return false;
  recycle(event);
  return true;
}

void StreamMonitor::recycle_events_of(PagedPool& pool) noexcept {
  for (const auto& [stream, arena] : pool.arenas) {
    if (arena->marker) recycle(*std::exchange(arena->marker, std::nullopt));
  }
  for (const Retirement& retirement : std::exchange(pool.retirements, {})) {
    for (const EventId event : retirement.events) recycle(event);
  }
}

Status StreamMonitor::record_order_event(StreamId source) {
  if (!order_event_) {
    const Result<EventId> event = device_.create_event();
    if (!event.ok()) return event.status();
    order_event_ = *event;
  }
  return device_.record_event(*order_event_, source);
}

Status StreamMonitor::wait_for_order_event(StreamId waiter) {
  return device_.wait_event(waiter, *order_event_);
}

void StreamMonitor::destroy_events() noexcept {
  const auto destroy = [this](EventId event) {
    catch_bad_alloc([&] { return device_.destroy_event(event).ok(); });
  };
  if (order_event_) destroy(*order_event_);
  for (const EventId event : unused_events_) destroy(event);
}

}  // namespace ashlar::paged
