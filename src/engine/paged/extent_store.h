// SPDX-License-Identifier: Apache-2.0
//
// The physical memory of an engine: creates and releases extents, and enforces the memory limit.
//
// Invariants:
//   held_bytes == bytes of all extents that are not dropped + bytes of all plain segments
//   held_bytes == PeakTracker's reserved bytes
//   extent_count == number of extents in all pools
//
// All functions need the engine's lock.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/paged/config.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/host_backups.h"
#include "engine/paged/peak_tracker.h"
#include "engine/paged/request_tracer.h"

namespace ashlar::paged {

// A request on the slow path, and the state of its attempts so far.
struct SlowPathRequest {
  AllocationRequest request;
  size_t block_bytes = 0;  // size of the block
  bool is_small = false;
  PagedPool* pool = nullptr;
  Arena* arena = nullptr;
  size_t device_bytes = 0;      // size of the latest request to the device
  bool is_over_budget = false;  // the last plan took new memory because the budget was used up
  bool ignores_budget = false;  // set after such a plan failed: the next plan ignores the budget
  bool is_rejected = false;     // by the limit, because reject_before_device_oom is set
  bool lacks_mappings = false;  // the device ran out of mappings or addresses
};

class ExtentStore {
 public:
  ExtentStore(const PagedConfig& config, PeakTracker& peaks, RequestTracer& tracer,
              HostBackups& backups, DeferredError& error)
      : config_(config),
        peaks_(peaks),
        tracer_(tracer),
        backups_(backups),
        error_(error),
        memory_fraction_(config.options.memory_fraction) {}

  size_t held_bytes() const ASHLAR_REQUIRES(engine_lock) { return held_bytes_; }
  size_t extent_count() const ASHLAR_REQUIRES(engine_lock) { return extent_count_; }
  double memory_fraction() const ASHLAR_REQUIRES(engine_lock) { return memory_fraction_; }
  void set_memory_fraction(double fraction) ASHLAR_REQUIRES(engine_lock) {
    memory_fraction_ = fraction;
  }
  size_t limit_bytes() const ASHLAR_REQUIRES(engine_lock);
  bool is_above_limit(size_t more_bytes) const ASHLAR_REQUIRES(engine_lock);
  // Stores `more_bytes` in request.device_bytes. kOutOfMemory: that much more memory would exceed
  // the limit; if reject_before_device_oom is set, `request.is_rejected` is then set as well.
  Status check_limit(SlowPathRequest& request, size_t more_bytes) const
      ASHLAR_REQUIRES(engine_lock);

  // Creates extents of these sizes in the request's pool and appends them to `created`. On failure,
  // releases the extents that it created. After a success, the caller calls `count_created`, or
  // `undo_creation` if host memory is exhausted.
  Status create(const SlowPathRequest& request, const std::vector<size_t>& sizes,
                std::vector<Extent*>& created) ASHLAR_REQUIRES(engine_lock);
  // Counts the created extents as held memory.
  void count_created(std::span<Extent* const> created) noexcept ASHLAR_REQUIRES(engine_lock);
  // Releases the created extents that are not mapped. Counts the mapped extents, and those that
  // cannot be released, as held memory.
  void undo_creation(PagedPool& pool, std::span<Extent* const> created) noexcept
      ASHLAR_REQUIRES(engine_lock);
  // Releases an extent that has no mappings, and removes it from its pool. On failure returns
  // false, keeps the extent and defers the error.
  bool release(PagedPool& pool, Extent* extent) noexcept ASHLAR_REQUIRES(engine_lock);
  // Releases the physical memory of an extent that is currently unmapped, but keeps the extent and
  // its slots. Does nothing if the extent is already dropped.
  Status drop(Extent& extent) ASHLAR_REQUIRES(engine_lock);
  // Creates new memory for an extent. kOutOfMemory: the limit or the device refused the memory.
  // REQUIRES: the extent is dropped.
  Status recreate(Extent& extent) ASHLAR_REQUIRES(engine_lock);

  // `begin_growth` and `end_growth` enclose a request for a plain segment, during which the lock
  // may be released. Meanwhile, its bytes count towards the limit.
  void begin_growth(size_t bytes) ASHLAR_REQUIRES(engine_lock) { growing_bytes_ += bytes; }
  void end_growth(size_t bytes) ASHLAR_REQUIRES(engine_lock) { growing_bytes_ -= bytes; }
  void add_segment(const View& view) noexcept ASHLAR_REQUIRES(engine_lock);
  void remove_segment(const View& view) noexcept ASHLAR_REQUIRES(engine_lock);

 private:
  CreateOptions extent_options() const;
  void erase(PagedPool& pool, Extent* extent) noexcept ASHLAR_REQUIRES(engine_lock);

  const PagedConfig& config_;
  PeakTracker& peaks_;
  RequestTracer& tracer_;
  HostBackups& backups_;
  DeferredError& error_;
  double memory_fraction_ ASHLAR_GUARDED_BY(engine_lock);
  size_t held_bytes_ ASHLAR_GUARDED_BY(engine_lock) = 0;
  size_t extent_count_ ASHLAR_GUARDED_BY(engine_lock) = 0;   // of all pools
  size_t growing_bytes_ ASHLAR_GUARDED_BY(engine_lock) = 0;  // requested while the lock is released
};

}  // namespace ashlar::paged
