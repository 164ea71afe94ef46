// SPDX-License-Identifier: Apache-2.0
//
// The state of streams: whether they capture, whether they are idle, and events recorded on them.
// Owns the engine's `PendingFrees`, which tracks captures, and a cache of events for reuse.
//
// All functions need the engine's lock. Errors that callers cannot act on are deferred.
#pragma once

#include <optional>
#include <vector>

#include "ashlar/device.h"
#include "engine/paged/engine_mutex.h"
#include "engine/pending_frees.h"

namespace ashlar::paged {

struct PagedPool;

class StreamMonitor {
 public:
  StreamMonitor(Device& device, bool reuse_within_captures, DeferredError& error)
      : device_(device), error_(error), frees_(device, reuse_within_captures) {}

  PendingFrees& frees() ASHLAR_REQUIRES(engine_lock) { return frees_; }
  const PendingFrees& frees() const ASHLAR_REQUIRES(engine_lock) { return frees_; }

  int capture_count() const ASHLAR_REQUIRES(engine_lock) { return frees_.capture_count(); }
  bool is_capturing(StreamId stream) const ASHLAR_REQUIRES(engine_lock) {
    return frees_.is_capturing({&device_, stream});
  }
  // Whether the engine can wait for the stream without invalidating a capture.
  bool is_waitable(StreamId stream) const ASHLAR_REQUIRES(engine_lock) {
    return frees_.is_waitable({&device_, stream});
  }
  // REQUIRES: is_waitable(stream).
  Status wait_for(StreamId stream) const ASHLAR_REQUIRES(engine_lock) {
    return frees_.wait_for_stream({&device_, stream});
  }

  // Whether the stream has no work queued. kInvalidArgument: the query could invalidate a capture,
  // possibly one that was not announced to the engine, or the stream has been destroyed.
  Result<bool> query_idle(StreamId stream) ASHLAR_REQUIRES(engine_lock);
  // Like query_idle, but returns false on errors. Errors other than kInvalidArgument are deferred.
  bool is_idle(StreamId stream) ASHLAR_REQUIRES(engine_lock);

  // Records an event after the work queued so far. The caller returns the event with `recycle`.
  // kInvalidArgument: the stream has been destroyed. Other errors are returned and also deferred.
  Result<EventId> record_event(StreamId stream) ASHLAR_REQUIRES(engine_lock);
  void recycle(EventId event) noexcept ASHLAR_REQUIRES(engine_lock) {
    unused_events_.push_back(event);
  }
  // Returns whether the event is done, and recycles it in that case. Errors are deferred.
  bool recycle_if_done(EventId event) ASHLAR_REQUIRES(engine_lock);
  // Recycles the events of a pool that is being destroyed.
  void recycle_events_of(PagedPool& pool) noexcept ASHLAR_REQUIRES(engine_lock);
  // The two steps of a stream-ordered wait: work queued on `waiter` after both calls runs after the
  // work queued on `source` before them. One event serves all such waits, because a wait refers to
  // the last record of the event.
  Status record_order_event(StreamId source) ASHLAR_REQUIRES(engine_lock);
  Status wait_for_order_event(StreamId waiter) ASHLAR_REQUIRES(engine_lock);

  // Destroys all events except those of pending frees, for the engine's destructor. Ignores errors.
  // REQUIRES: all events have been recycled.
  void destroy_events() noexcept ASHLAR_REQUIRES(engine_lock);

 private:
  Result<EventId> acquire_event() ASHLAR_REQUIRES(engine_lock);

  Device& device_;
  DeferredError& error_;
  PendingFrees frees_ ASHLAR_GUARDED_BY(engine_lock);
  // Has capacity for all events that were created, so that `recycle` cannot fail.
  std::vector<EventId> unused_events_ ASHLAR_GUARDED_BY(engine_lock);
  size_t created_event_count_ ASHLAR_GUARDED_BY(engine_lock) = 0;
  std::optional<EventId> order_event_ ASHLAR_GUARDED_BY(engine_lock);
};

}  // namespace ashlar::paged
