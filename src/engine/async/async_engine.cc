// SPDX-License-Identifier: Apache-2.0
//
// What the driver's pool adds to the engine below: its figures, and giving back what it keeps.
#include "engine/async/async_engine.h"

#include <algorithm>

#include "device/relaxed_capture.h"

namespace ashlar {

Result<std::unique_ptr<AsyncEngine>> AsyncEngine::create(Device& device,
                                                         const AllocatorOptions& options) {
  const Result<std::shared_ptr<DriverPoolSource>> pool = DriverPoolSource::create(device);
  if (!pool.ok()) return pool.status();
  return std::unique_ptr<AsyncEngine>(new AsyncEngine(device, options, *pool));
}

AsyncEngine::AsyncEngine(Device& device, const AllocatorOptions& options,
                         const std::shared_ptr<DriverPoolSource>& source)
    : ClassicEngine(device, options,
                    {.source = source, .passes_each = true, .serves_pools = false, .keeps = true}),
      pool_(source) {
  pool_->limit_to([this] { return most_pool_bytes(); });
}

Status AsyncEngine::add_accessor(DeviceIndex accessor) {
  if (is_accessor(accessor)) return {};
  return Status::unsupported(
      "other devices cannot be let into the driver's pool: use engine:paged or engine:classic");
}

// --- limits and giving back
// -----------------------------------------------------------------------

size_t AsyncEngine::most_pool_bytes() const {
  const double fraction = memory_fraction();
  if (fraction >= 1) return SIZE_MAX;
  const auto capacity = static_cast<double>(device().properties().capacity_bytes);
  const auto limit_bytes = static_cast<size_t>(fraction * capacity);
  const Held now = held();
  return limit_bytes - std::min(limit_bytes, now.all_bytes - now.given_bytes);
}

size_t AsyncEngine::kept_bytes(size_t given_bytes) const {
  return std::max(pool_->stats().reserved_bytes, given_bytes) - given_bytes;
}

size_t AsyncEngine::reserved_bytes() const {
  const Held now = held();
  return now.all_bytes + kept_bytes(now.given_bytes);
}

// First what is left of other pools, which nobody will ask for again.
Result<size_t> AsyncEngine::trim_to(const TrimTarget& target) {
  const auto excess_bytes = [&](size_t reserved) {
    return reserved - std::min(reserved, target.reserved_bytes);
  };
  const size_t before = reserved_bytes();
  const size_t held_before = held().all_bytes;
  TrimTarget others = target;
  others.reserved_bytes = held_before - std::min(held_before, excess_bytes(before));
  const Result<size_t> given = ClassicEngine::trim_to(others);
  if (!given.ok()) return given;

  const RelaxedCapture relaxed(device());
  if (!relaxed.status().ok()) return relaxed.status();
  if (target.wait == TrimWait::kForWork) {
    if (Status waited = pool_->wait_for_frees(); !waited.ok()) return waited;
  }
  const size_t pool_bytes = pool_->stats().reserved_bytes;
  const size_t keep_bytes = pool_bytes - std::min(pool_bytes, excess_bytes(reserved_bytes()));
  if (keep_bytes < pool_bytes) {
    if (Status trimmed = pool_->trim_to(keep_bytes); !trimmed.ok()) return trimmed;
  }
  const size_t after = reserved_bytes();
  return before - std::min(before, after);
}

// --- captures and looking
// -------------------------------------------------------------------------

void AsyncEngine::capture_began() {
  ClassicEngine::capture_began();
  pool_->capture_began();
}

Status AsyncEngine::capture_ended() {
  Status ended = ClassicEngine::capture_ended();
  if (ended.ok()) pool_->capture_ended();
  return ended;
}

AllocatorStats AsyncEngine::stats() const {
  AllocatorStats stats = ClassicEngine::stats();
  const DriverPoolStats use = pool_->stats();
  StatTriple& given = stats.pools[PoolId{}].reserved_bytes;
  const auto kept =
      std::max(static_cast<int64_t>(use.reserved_bytes), given.all.current) - given.all.current;
  const auto pool_peak = std::max(static_cast<int64_t>(use.reserved_peak_bytes), given.all.peak);
  int64_t others_peak = 0;
  for (const auto& [id, usage] : stats.pools) {
    if (!id.is_default()) others_peak += usage.reserved_bytes.all.peak;
  }
  const auto add = [&](Stat& reserved, int64_t peak) {
    reserved.current += kept;
    reserved.peak = std::max({reserved.peak, reserved.current, peak});
  };
  add(given.all, pool_peak);
  add(given.large_pool, 0);
  add(stats.reserved_bytes.all, pool_peak + others_peak);
  add(stats.reserved_bytes.large_pool, 0);
  return stats;
}

void AsyncEngine::reset_peak_stats() {
  ClassicEngine::reset_peak_stats();
  pool_->reset_peaks();
}

}  // namespace ashlar
