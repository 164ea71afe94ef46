// SPDX-License-Identifier: Apache-2.0
//
// The driver's stream-ordered pool as a source of memory. Each block is allocated on its stream and
// freed on it, or on the default stream if its own has been destroyed; the driver decides when to
// reuse the memory. Frees that the driver cannot accept yet (the stream is capturing or destroyed,
// or the device failed) are queued here and retried. Thread safe; calls the device with no lock
// held. REQUIRES: callers of allocate, free, trim_to and wait_for_frees hold a RelaxedCapture.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

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

  // Waits for all frees so far, except on capturing streams, and returns unused memory to the
  // device. Reports deferred errors.
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
  // A free that the driver has not accepted yet.
  struct FreeRequest {
    DeviceAddress address{};
    StreamId stream{};
  };
  explicit DriverPoolSource(Device& device) : device_(device) {}
  Status enforce_limit(size_t max_bytes);
  Status free_on(const FreeRequest& request, StreamId stream);
  enum class Wait { kNever, kForDevice };
  // Retries queued frees. Frees on destroyed streams succeed only with Wait::kForDevice.
  Status retry_frees(Wait wait);
  Status free_after_device_wait(const FreeRequest& request);
  bool is_capturing(StreamId stream) const;
  bool has_captures() const;
  Status take_deferred_error();

  Device& device_;
  std::function<size_t()> max_bytes_;
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, StreamId> live_
      ASHLAR_GUARDED_BY(mutex_);  // streams of blocks, by address
  // Number of frees on each stream since the last wait that covered all frees on that stream.
  std::map<StreamId, uint64_t> free_counts_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<FreeRequest> queued_frees_ ASHLAR_GUARDED_BY(mutex_);
  int capture_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
