// SPDX-License-Identifier: Apache-2.0
//
// Makes limits, trimming and statistics include the memory that the driver's pool caches.
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
                    {.source = source,
                     .is_pass_through = true,
                     .serves_private_pools = false,
                     .caches = true}),
      pool_(source) {
  pool_->set_limit([this] { return max_pool_bytes(); });
}

Status AsyncEngine::add_accessor(DeviceIndex accessor) {
  if (is_accessor(accessor)) return {};
  return Status::unsupported(
      "other devices cannot access the driver's pool: use engine:paged or engine:classic");
}

size_t AsyncEngine::max_pool_bytes() const {
  const double fraction = memory_fraction();
  if (fraction >= 1) return SIZE_MAX;
  const auto capacity = static_cast<double>(device().properties().capacity_bytes);
  const auto limit_bytes = static_cast<size_t>(fraction * capacity);
  const ReservedBytes now = reserved();
  return limit_bytes - std::min(limit_bytes, now.total - now.default_pool);
}

size_t AsyncEngine::source_cached_bytes(size_t in_use_bytes) const {
  return std::max(pool_->stats().reserved_bytes, in_use_bytes) - in_use_bytes;
}

size_t AsyncEngine::reserved_bytes() const {
  const ReservedBytes now = reserved();
  return now.total + source_cached_bytes(now.default_pool);
}

// Trims released private pools first, because their memory is not requested again.
Result<size_t> AsyncEngine::trim_to(const TrimTarget& target) {
  const auto excess_bytes = [&](size_t reserved) {
    return reserved - std::min(reserved, target.reserved_bytes);
  };
  const size_t before = reserved_bytes();
  const size_t total_before = reserved().total;
  TrimTarget others = target;
  others.reserved_bytes = total_before - std::min(total_before, excess_bytes(before));
  const Result<size_t> trimmed_others = ClassicEngine::trim_to(others);
  if (!trimmed_others.ok()) return trimmed_others;

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
  StatTriple& default_pool = stats.pools[PoolId{}].reserved_bytes;
  const auto cached = std::max(static_cast<int64_t>(use.reserved_bytes), default_pool.all.current) -
                      default_pool.all.current;
  const auto pool_peak =
      std::max(static_cast<int64_t>(use.reserved_peak_bytes), default_pool.all.peak);
  int64_t others_peak = 0;
  for (const auto& [id, usage] : stats.pools) {
    if (!id.is_default()) others_peak += usage.reserved_bytes.all.peak;
  }
  const auto add = [&](Stat& reserved, int64_t peak) {
    reserved.current += cached;
    reserved.peak = std::max({reserved.peak, reserved.current, peak});
  };
  add(default_pool.all, pool_peak);
  add(default_pool.large_pool, 0);
  add(stats.reserved_bytes.all, pool_peak + others_peak);
  add(stats.reserved_bytes.large_pool, 0);
  return stats;
}

void AsyncEngine::reset_peak_stats() {
  ClassicEngine::reset_peak_stats();
  pool_->reset_peaks();
}

}  // namespace ashlar
