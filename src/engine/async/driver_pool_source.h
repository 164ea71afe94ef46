// SPDX-License-Identifier: Apache-2.0
//
// The driver's stream-ordered pool as a source of memory. Each block is allocated on its stream and
// freed on it, or on the default stream if its own has been destroyed; the driver decides when to
// reuse the memory. Frees that the driver cannot accept yet (the stream is capturing or destroyed,
// or the device failed) are queued here and retried. A free needs no host memory: the map nodes
// that `allocate` creates move from the live allocations to the queued frees. Thread safe; calls
// the device with no lock held. REQUIRES: callers of allocate, free, trim_to and wait_for_frees
// hold a RelaxedCapture.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "ashlar/device.h"
#include "ashlar/pool.h"
#include "base/mutex.h"

namespace ashlar {

class DriverPoolSource final : public SegmentSource {
 public:
  // `device` outlives the source. kUnsupported: the device has no stream-ordered pool.
  static Result<std::shared_ptr<DriverPoolSource>> create(Device& device);
  // Waits for all frees and trims the pool.
  ~DriverPoolSource() override;

  // Sets the function that returns the maximum size of the pool; SIZE_MAX means no limit. The
  // source calls the function after each allocation. REQUIRES: set_limit is called once, before the
  // first allocation.
  void set_limit(std::function<size_t()> max_bytes) { max_bytes_ = std::move(max_bytes); }

  // kOutOfMemory: the device has no memory left, or the pool would exceed its maximum size.
  // kInvalidArgument: the stream is capturing. kDeviceFault: the device failed, possibly in an
  // earlier call.
  Result<DeviceAddress> allocate(size_t bytes, StreamId stream) override;
  void free(DeviceAddress address, size_t bytes) override;

  // Waits for all frees so far, except those on capturing streams and, during captures, those on
  // destroyed streams. Then returns unused memory to the device. Reports deferred errors.
  Status trim();
  // Returns unused memory until at most `keep_bytes` are reserved. Does not wait.
  Status trim_to(size_t keep_bytes);
  Status wait_for_frees();

  // Returns zeros if the device reports no statistics.
  DriverPoolStats stats() const;
  void reset_peaks();

  void capture_began();
  void capture_ended();

 private:
  using Allocations = std::map<uint64_t, StreamId>;  // streams, keyed by address
  // A stream with allocations, or with frees since the last wait that covered all its frees.
  struct StreamFrees {
    size_t allocation_count = 0;
    uint64_t free_count = 0;
    bool is_unused() const { return allocation_count == 0 && free_count == 0; }
  };
  explicit DriverPoolSource(Device& device);
  Result<DeviceAddress> allocate_counted(size_t bytes, StreamId stream);
  Status enforce_limit(size_t max_bytes);
  // Queues the free of an allocation on `stream`: its own stream or, if that was destroyed, the
  // default stream. kUnsupported: the stream is capturing. kInvalidArgument: the stream has been
  // destroyed.
  Status free_on(const Allocations::value_type& allocation, StreamId stream);
  void count_allocation(StreamId stream);
  void uncount_allocation_locked(StreamId stream) ASHLAR_REQUIRES(mutex_);
  std::optional<StreamId> next_stream_with_frees(std::optional<StreamId> previous,
                                                 StreamFrees& frees) const;
  void reset_free_count(StreamId stream, uint64_t waited_for_count);
  enum class Wait { kNever, kForDevice };
  // Retries queued frees. Frees on destroyed streams succeed only with Wait::kForDevice, and only
  // outside captures.
  Status retry_frees(Wait wait);
  Status free_after_device_wait(const Allocations::value_type& allocation);
  bool is_capturing(StreamId stream) const;
  bool has_captures() const;
  Status take_deferred_error();

  Device& device_;
  std::function<size_t()> max_bytes_;
  mutable Mutex mutex_;
  Allocations live_ ASHLAR_GUARDED_BY(mutex_);
  Allocations queued_frees_ ASHLAR_GUARDED_BY(mutex_);  // not accepted by the driver yet
  // Contains the default stream, the streams of live allocations and queued frees, and the streams
  // with frees that no wait has covered.
  std::map<StreamId, StreamFrees> streams_ ASHLAR_GUARDED_BY(mutex_);
  int capture_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
