// SPDX-License-Identifier: Apache-2.0
//
// Plain segments: whole allocations of the device or of a pool's source. They are used by pools
// with a source or with no_split, by all pools of a device that cannot map one extent at several
// addresses, and while caching is off. A segment is a plain View without slots.
//
// All functions but destroy_returned need the engine's lock. Some release it to call a source or to
// allocate from the device.
#pragma once

#include "ashlar/options.h"
#include "engine/paged/config.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/extent_store.h"
#include "engine/paged/request_tracer.h"
#include "engine/paged/stream_monitor.h"
#include "engine/return_queue.h"
#include "engine/trim_selection.h"

namespace ashlar::paged {

class SegmentStore {
 public:
  SegmentStore(const PagedConfig& config, EngineMutex& mutex, ExtentStore& extents,
               StreamMonitor& streams, RequestTracer& tracer, DeferredError& error)
      : config_(config),
        mutex_(mutex),
        extents_(extents),
        streams_(streams),
        tracer_(tracer),
        error_(error) {}

  // Obtains a segment and allocates the request's block from it. REQUIRES: the memory limit permits
  // the segment (ExtentStore::check_limit).
  Result<Block*> allocate(SlowPathRequest& request, size_t segment_bytes)
      ASHLAR_REQUIRES(engine_lock);
  // Returns the segment to the device or its source if none of its blocks is in use. Waits for work
  // that may use it; with kNever, does nothing if there is such work. Returns false if the segment
  // stays; device errors are deferred.
  bool release(View& view, TrimWait wait = TrimWait::kForWork) noexcept
      ASHLAR_REQUIRES(engine_lock);

  // Returns released segments to their sources. Call before an operation ends. If host memory is
  // exhausted, a later operation returns them.
  void return_to_sources() ASHLAR_REQUIRES(engine_lock);
  // Waits, for at most one second, until other threads have returned segments to their sources,
  // because until then the memory of these segments is not available to the device.
  void wait_for_sources() ASHLAR_REQUIRES(engine_lock);
  // For the engine's destructor: `destroy` frees a view's segment or queues it for its source, and
  // `destroy_returned` returns the queued segments to their sources. Errors are ignored.
  void destroy(const View& view) noexcept;
  void destroy_returned() noexcept;

 private:
  Result<DeviceAddress> obtain(const SlowPathRequest& request, size_t bytes)
      ASHLAR_REQUIRES(engine_lock);
  bool try_free(const View& view, TrimWait wait) ASHLAR_REQUIRES(engine_lock);

  const PagedConfig& config_;
  EngineMutex& mutex_;
  ExtentStore& extents_;
  StreamMonitor& streams_;
  RequestTracer& tracer_;
  DeferredError& error_;
  ReturnQueue return_queue_;  // thread safe
};

}  // namespace ashlar::paged
