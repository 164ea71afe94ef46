// SPDX-License-Identifier: Apache-2.0
//
// The driver's stream-ordered pool as the source of an engine's blocks. Each is allocated and freed
// on its own stream, and the driver decides when its memory serves again. What the driver cannot
// take back yet, because the stream is capturing, is gone, or the device failed, waits here and is
// tried again. Thread safe; no lock is held while the device is called. REQUIRES, of whoever
// allocates, frees or calls trim_to: a RelaxedCapture.
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
  // `device` outlives it. kUnsupported: the device has no such pool.
  static Result<std::shared_ptr<DriverPoolSource>> create(Device& device);
  // Waits for the frees, and leaves nothing unused in the pool.
  ~DriverPoolSource() override;

  // How much the pool may have of the device, asked after each allocation. To be set before the
  // first, and with no limit it says SIZE_MAX.
  void limit_to(std::function<size_t()> most_bytes) { most_bytes_ = std::move(most_bytes); }

  // kInvalidArgument: the stream is capturing. kDeviceFault: also of an earlier free.
  Result<DeviceAddress> allocate(size_t bytes, StreamId stream) override;
  void free(DeviceAddress address, size_t bytes) override;

  // Waits until the frees so far have happened, except in streams that capture, and gives what is
  // unused back to the device. Tells failures of frees that nobody heard of yet.
  Status trim();
  // The same until no more than that is reserved, without waiting.
  Status trim_to(size_t keep_bytes);
  Status wait_for_frees();

  // Nothing if the device does not tell.
  DriverPoolStats stats() const;
  void reset_peaks();

  void capture_began();
  void capture_ended();

 private:
  struct Freed {
    DeviceAddress address{};
    StreamId stream{};
  };
  explicit DriverPoolSource(Device& device) : device_(device) {}
  Status stay_below(size_t most_bytes);
  Status free_on(const Freed& freed, StreamId stream);
  // Those that could not be freed before. What belonged to a stream that is gone takes a wait for
  // the device.
  enum class Wait { kNever, kForDevice };
  Status free_left(Wait wait);
  Status free_of_gone_stream(const Freed& freed);
  bool is_capturing(StreamId stream) const;
  bool has_captures() const;
  Status take_late_error();

  Device& device_;
  std::function<size_t()> most_bytes_;
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, StreamId> given_ ASHLAR_GUARDED_BY(mutex_);  // by address
  // How many frees each stream got that nobody waited for.
  std::map<StreamId, uint64_t> freed_on_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<Freed> left_ ASHLAR_GUARDED_BY(mutex_);
  int capture_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
