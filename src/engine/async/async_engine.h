// SPDX-License-Identifier: Apache-2.0
//
// The driver's stream-ordered pool as an engine, with what drivers do not give: statistics,
// history, snapshots, limits, and pools. How blocks are counted, kept and told of is
// ClassicEngine's business, whose default pool passes each on to DriverPoolSource; here is what the
// driver keeps for itself.
//
// Pools beside the default one take plain memory from the device, in segments as ClassicEngine
// does: the driver's pool has none for captures, and a graph relies on its addresses.
#pragma once

#include <memory>

#include "engine/async/driver_pool_source.h"
#include "engine/classic/classic_engine.h"

namespace ashlar {

class AsyncEngine final : public classic::ClassicEngine {
 public:
  // `device` outlives the engine. REQUIRES: options that src/config would accept.
  // kUnsupported: the device has no stream-ordered pool.
  static Result<std::unique_ptr<AsyncEngine>> create(Device& device,
                                                     const AllocatorOptions& options);

  // kUnsupported: the driver's pool is this device's alone.
  Status add_accessor(DeviceIndex accessor) override;
  Result<size_t> trim_to(const TrimTarget& target) override;
  void capture_began() override;
  Status capture_ended() override;
  // What is reserved is what the driver says of its pool, which all async engines of a device
  // share, and what other pools hold. Its peak is at most the sum of their peaks.
  AllocatorStats stats() const override;
  void reset_peak_stats() override;
  bool is_caching() const override { return false; }

 private:
  AsyncEngine(Device& device, const AllocatorOptions& options,
              const std::shared_ptr<DriverPoolSource>& source);
  size_t kept_bytes(size_t given_bytes) const override;
  Status trim_source() override { return pool_->trim(); }
  size_t most_pool_bytes() const;
  size_t reserved_bytes() const;

  const std::shared_ptr<DriverPoolSource> pool_;  // shared with the engine below
};

}  // namespace ashlar
