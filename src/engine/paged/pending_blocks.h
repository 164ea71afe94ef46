// SPDX-License-Identifier: Apache-2.0
//
// Blocks that were freed while other streams may still use them, and the schedule for polling these
// streams. A poll queries an event of every such stream, and while the host runs ahead of the
// device, none of these events is done. Therefore the interval between polls by hits grows with
// consecutive unsuccessful polls, up to a bound. Misses always poll.
//
// All functions need the engine's lock except where stated otherwise.
#pragma once

#include <atomic>
#include <vector>

#include "engine/paged/engine_mutex.h"
#include "engine/paged/peak_tracker.h"
#include "engine/paged/request_tracer.h"
#include "engine/paged/segment_store.h"
#include "engine/paged/stream_monitor.h"

namespace ashlar::paged {

class PendingBlocks {
 public:
  PendingBlocks(StreamMonitor& streams, SegmentStore& segments, PeakTracker& peaks,
                RequestTracer& tracer)
      : streams_(streams), segments_(segments), peaks_(peaks), tracer_(tracer) {}

  // Counts a request off the fast path if any block is pending, and returns whether the request
  // should take the slow path to poll. Thread safe; needs no lock.
  bool count_hit_and_check_poll() {
    return has_pending_.load(std::memory_order_relaxed) &&
           hits_before_poll_.fetch_sub(1, std::memory_order_relaxed) <= 0;
  }
  // Updates the flag that `count_hit_and_check_poll` reads: whether any block is pending.
  void publish() ASHLAR_REQUIRES(engine_lock);

  // Makes a freed block in state kPending free, now or once the streams that use it are done.
  Status add(PagedBlock* block) ASHLAR_REQUIRES(engine_lock);
  // The next two functions make blocks free whose streams are done. `poll` serves an allocation on
  // `stream`, and adapts the polling interval.
  Status poll(StreamId stream) ASHLAR_REQUIRES(engine_lock);
  Status collect() ASHLAR_REQUIRES(engine_lock);
  // Waits for the pending blocks of one pool, or of all pools if `pool` is the default one, and
  // makes them free.
  Status wait(PoolId pool) ASHLAR_REQUIRES(engine_lock);

 private:
  void make_free(PagedBlock* block) noexcept ASHLAR_REQUIRES(engine_lock);
  void make_free(const std::vector<Block*>& finished) noexcept ASHLAR_REQUIRES(engine_lock);

  // On a new cache line to avoid false sharing: while blocks are pending, every request off the
  // fast path writes this counter, and every hit reads the fields of PagedEngine that precede this
  // object.
  alignas(64) std::atomic<int> hits_before_poll_{0};
  std::atomic<bool> has_pending_{false};
  StreamMonitor& streams_;
  SegmentStore& segments_;
  PeakTracker& peaks_;
  RequestTracer& tracer_;
  int empty_poll_count_ ASHLAR_GUARDED_BY(engine_lock) = 0;  // consecutive polls that found nothing
};

}  // namespace ashlar::paged
