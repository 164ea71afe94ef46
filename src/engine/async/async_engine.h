// SPDX-License-Identifier: Apache-2.0
//
// The driver's stream-ordered pool as an engine, with statistics, history, snapshots, limits and
// private pools. ClassicEngine does the bookkeeping; its default pool passes every allocation
// through to DriverPoolSource. This class makes limits, trimming and statistics include the memory
// that the driver's pool caches.
//
// Private pools take segments from the device or their own sources, as in ClassicEngine: the
// driver's pool does not serve captures, and graphs rely on stable addresses.
#pragma once

#include <memory>

#include "engine/async/driver_pool_source.h"
#include "engine/classic/classic_engine.h"

namespace ashlar {

class AsyncEngine final : public classic::ClassicEngine {
 public:
  // `device` outlives the engine. REQUIRES: check_allocator_options accepts `options`.
  // kUnsupported: the device has no stream-ordered pool.
  static Result<std::unique_ptr<AsyncEngine>> create(Device& device,
                                                     const AllocatorOptions& options);

  // kUnsupported: only this device can access the driver's pool.
  Status add_accessor(DeviceIndex accessor) override;
  Result<size_t> trim_to(const TrimTarget& target) override;
  void capture_began() override;
  Status capture_ended() override;
  // Reserved bytes are those of the driver's pool, which all async engines of the device share,
  // plus those of private pools. The reported peak of all reserved bytes is the sum of the pools'
  // peaks, an upper bound of the true peak unless a private pool has been destroyed.
  AllocatorStats stats() const override;
  void reset_peak_stats() override;
  bool is_caching() const override { return false; }

 private:
  AsyncEngine(Device& device, const AllocatorOptions& options,
              const std::shared_ptr<DriverPoolSource>& source);
  size_t source_cached_bytes(size_t in_use_bytes) const override;
  Status trim_source() override { return pool_->trim(); }
  size_t max_pool_bytes() const;
  size_t reserved_bytes() const;

  const std::shared_ptr<DriverPoolSource> pool_;  // shared with the base class
};

}  // namespace ashlar
