// SPDX-License-Identifier: Apache-2.0
//
// Updates the counters of the engine, of the block's pool and of its stream.
#include "engine/classic/stats_recorder.h"

#include "engine/classic/free_pool.h"

namespace ashlar::classic {

StatsRecorder::StatsRecorder(const SizePolicy& sizes, const AllocatorOptions& options)
    : sizes_(sizes) {
  stats_.max_split_bytes =
      options.max_split_bytes ? static_cast<int64_t>(*options.max_split_bytes) : -1;
}

OomUsage StatsRecorder::oom_usage() const {
  OomUsage usage{static_cast<size_t>(stats_.allocated_bytes.all.current), reserved_bytes(), 0};
  for (const auto& [pool, pool_usage] : stats_.pools) {
    if (!pool.is_default()) usage.cached_in_private_pools_bytes += cached_bytes(pool_usage);
  }
  return usage;
}

void StatsRecorder::record_allocated(const ClassicBlock& block) {
  const bool is_small = block.pool->is_small();
  const auto bytes = static_cast<int64_t>(block.bytes);
  const auto requested_bytes = static_cast<int64_t>(block.requested_bytes);
  stats_.allocation.increase(is_small, 1);
  stats_.allocated_bytes.increase(is_small, bytes);
  stats_.active.increase(is_small, 1);
  stats_.active_bytes.increase(is_small, bytes);
  stats_.requested_bytes.increase(is_small, requested_bytes);
  if (block.bytes >= sizes_.max_split_bytes()) stats_.oversize_allocations.increase(1);
  for (UsageStats* usage : {&block.pool->usage(), block.stream_usage}) {
    usage->allocation.increase(1);
    usage->allocated_bytes.increase(bytes);
    usage->active_bytes.increase(bytes);
    usage->requested_bytes.increase(requested_bytes);
  }
}

void StatsRecorder::record_free_requested(const ClassicBlock& block) {
  const bool is_small = block.pool->is_small();
  const auto bytes = static_cast<int64_t>(block.bytes);
  stats_.allocation.decrease(is_small, 1);
  stats_.allocated_bytes.decrease(is_small, bytes);
  if (block.bytes >= sizes_.max_split_bytes()) stats_.oversize_allocations.decrease(1);
  for (UsageStats* usage : {&block.pool->usage(), block.stream_usage}) {
    usage->allocation.decrease(1);
    usage->allocated_bytes.decrease(bytes);
  }
}

void StatsRecorder::record_free_completed(const ClassicBlock& block) {
  const bool is_small = block.pool->is_small();
  const auto bytes = static_cast<int64_t>(block.bytes);
  const auto requested_bytes = static_cast<int64_t>(block.requested_bytes);
  stats_.active.decrease(is_small, 1);
  stats_.active_bytes.decrease(is_small, bytes);
  stats_.requested_bytes.decrease(is_small, requested_bytes);
  for (UsageStats* usage : {&block.pool->usage(), block.stream_usage}) {
    usage->active_bytes.decrease(bytes);
    usage->requested_bytes.decrease(requested_bytes);
  }
}

void StatsRecorder::record_reserved(const ClassicBlock& block, size_t bytes) {
  const bool is_small = block.pool->is_small();
  ++stats_.device_allocs;
  for (StatTriple* reserved : {&stats_.reserved_bytes, &block.pool->usage().reserved_bytes,
                               &block.stream_usage->reserved_bytes}) {
    reserved->increase(is_small, static_cast<int64_t>(bytes));
  }
  if (block.expandable != nullptr) return;
  stats_.segment.increase(is_small, 1);
  if (bytes >= sizes_.max_split_bytes()) stats_.oversize_segments.increase(1);
}

void StatsRecorder::record_released(const ClassicBlock& block, size_t bytes) {
  const bool is_small = block.pool->is_small();
  ++stats_.device_frees;
  for (StatTriple* reserved : {&stats_.reserved_bytes, &block.pool->usage().reserved_bytes,
                               &block.stream_usage->reserved_bytes}) {
    reserved->decrease(is_small, static_cast<int64_t>(bytes));
  }
  if (block.expandable != nullptr) return;
  stats_.segment.decrease(is_small, 1);
  if (bytes >= sizes_.max_split_bytes()) stats_.oversize_segments.decrease(1);
}

void StatsRecorder::record_inactive_split(bool is_small, int64_t count_change,
                                          int64_t bytes_change) {
  const auto change = [&](StatTriple& stat, int64_t by) {
    if (by > 0) stat.increase(is_small, by);
    if (by < 0) stat.decrease(is_small, -by);
  };
  change(stats_.inactive_split, count_change);
  change(stats_.inactive_split_bytes, bytes_change);
}

}  // namespace ashlar::classic
