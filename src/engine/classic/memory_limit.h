// SPDX-License-Identifier: Apache-2.0
//
// The limit on the device memory that an engine may reserve: a fraction of the capacity. Guarded by
// the engine's lock.
#pragma once

#include <cstddef>

#include "engine/classic/stats_recorder.h"

namespace ashlar::classic {

class MemoryLimit {
 public:
  // `stats` outlives the limit.
  MemoryLimit(const StatsRecorder& stats, size_t capacity_bytes, double fraction)
      : stats_(stats), capacity_bytes_(capacity_bytes), fraction_(fraction) {}

  double fraction() const { return fraction_; }
  void set_fraction(double fraction) { fraction_ = fraction; }
  bool is_set() const { return fraction_ < 1; }
  size_t capacity_bytes() const { return capacity_bytes_; }
  size_t bytes() const {
    return is_set() ? static_cast<size_t>(fraction_ * static_cast<double>(capacity_bytes_))
                    : capacity_bytes_;
  }
  // Whether reserving `more_bytes` would exceed the limit.
  bool is_exceeded_by(size_t more_bytes) const {
    return is_set() && stats_.reserved_bytes() + in_flight_bytes_ + more_bytes > bytes();
  }

  // Counts memory that is being requested from the device while the engine's lock is released.
  // REQUIRES: the lock is held when the object is created and destroyed.
  class Request {
   public:
    Request(MemoryLimit& limit, size_t bytes) : limit_(limit), bytes_(bytes) {
      limit_.in_flight_bytes_ += bytes;
    }
    ~Request() { limit_.in_flight_bytes_ -= bytes_; }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

   private:
    MemoryLimit& limit_;
    const size_t bytes_;
  };

 private:
  const StatsRecorder& stats_;
  const size_t capacity_bytes_;
  double fraction_;
  size_t in_flight_bytes_ = 0;
};

}  // namespace ashlar::classic
