// SPDX-License-Identifier: Apache-2.0
//
// Callbacks of an allocator: trackers of operations, observers of out-of-memory errors, callbacks
// that free memory, and observers of mappings.
//
// Errors: functions throw; callbacks must not.
#pragma once

#include <cstddef>
#include <functional>

#include "ashlar/export.h"
#include "ashlar/trace.h"
#include "ashlar/types.h"

namespace ashlar {

class Engine;

// Describes an allocation that failed for lack of memory.
struct OomNotice {
  DeviceIndex device;
  size_t wanted_bytes = 0;  // memory that could not be obtained from the device
  size_t limit_bytes = 0;   // the allocator's limit, or the device's capacity
  size_t device_free_bytes = 0;
};

// Observes which addresses are backed by memory. For example, memory must be registered with a
// network card after it is mapped, and deregistered before it is unmapped.
//
// The callbacks are called one at a time, in order, with no lock held. A callback may allocate and
// free, but must not call pause or resume, and must not throw. before_unmap receives exactly the
// ranges that after_map received; they are never split or merged. Plain segments, which are not
// mapped from extents, are not reported; use a tracker for them. A segment is plain if it comes
// from a SegmentSource, belongs to a pool with PoolOptions::no_split, is on a device without
// virtual memory, or holds a block that was allocated while caching was off.
struct RemapObserver {
  // Called when all work on the range is done. The memory stays mapped until the callback returns.
  std::function<void(AddressRange range)> before_unmap{};
  // Called before the allocator hands out any memory in the range. The same memory may also be
  // mapped at other addresses.
  std::function<void(AddressRange range)> after_map{};
};

// The callbacks of one allocator: `allocator.hooks()`. They are called with no lock held, may call
// the allocator, must not throw, and stay registered until the allocator is destroyed. Thread safe.
class ASHLAR_EXPORT AllocatorHooks {
 public:
  AllocatorHooks(const AllocatorHooks&) = delete;
  AllocatorHooks& operator=(const AllocatorHooks&) = delete;

  // Adds a tracker of every operation except annotations.
  void add_tracker(TraceTracker tracker);
  // Adds an observer of allocations that fail after every attempt to reclaim memory.
  void add_oom_observer(std::function<void(const OomNotice&)> observer);
  // Adds an observer of allocations that the limit rejects (reject_before_device_oom).
  void add_rejection_observer(std::function<void(const OomNotice&)> observer);
  // Adds a callback that is called when no cached block fits a request or, for requests that bypass
  // the cache, when the device is out of memory. The callback returns true if it freed memory that
  // a retry can use.
  void add_free_memory_callback(std::function<bool()> callback);
  // Adds an observer of mappings, and reports existing mappings to it before this call returns.
  // Throws InvalidArgument unless the engine is `paged`.
  void add_remap_observer(RemapObserver observer);

 private:
  friend class Allocator;
  explicit AllocatorHooks(Engine& engine) : engine_(engine) {}

  Engine& engine_;
};

}  // namespace ashlar
