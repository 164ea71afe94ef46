// SPDX-License-Identifier: Apache-2.0
//
// The counters, where blocks and memory change hands: for the whole engine, for the pool, and for
// the stream.
#include "engine/classic/classic_engine.h"

namespace ashlar::classic {

void ClassicEngine::count_handed_out(const ClassicBlock& block) {
  const bool is_small = block.pool->is_small();
  const auto bytes = static_cast<int64_t>(block.bytes);
  const auto requested_bytes = static_cast<int64_t>(block.requested_bytes);
  stats_.allocation.rise(is_small, 1);
  stats_.allocated_bytes.rise(is_small, bytes);
  stats_.active.rise(is_small, 1);
  stats_.active_bytes.rise(is_small, bytes);
  stats_.requested_bytes.rise(is_small, requested_bytes);
  if (block.bytes >= sizes_.max_split_bytes()) stats_.oversize_allocations.rise(1);
  for (UsageStats* usage : {&block.pool->usage(), block.stream_usage}) {
    usage->allocation.rise(1);
    usage->allocated_bytes.rise(bytes);
    usage->active_bytes.rise(bytes);
    usage->requested_bytes.rise(requested_bytes);
  }
}

void ClassicEngine::count_free_requested(const ClassicBlock& block) {
  const bool is_small = block.pool->is_small();
  const auto bytes = static_cast<int64_t>(block.bytes);
  stats_.allocation.fall(is_small, 1);
  stats_.allocated_bytes.fall(is_small, bytes);
  if (block.bytes >= sizes_.max_split_bytes()) stats_.oversize_allocations.fall(1);
  for (UsageStats* usage : {&block.pool->usage(), block.stream_usage}) {
    usage->allocation.fall(1);
    usage->allocated_bytes.fall(bytes);
  }
}

void ClassicEngine::count_freed(const ClassicBlock& block) {
  const bool is_small = block.pool->is_small();
  const auto bytes = static_cast<int64_t>(block.bytes);
  const auto requested_bytes = static_cast<int64_t>(block.requested_bytes);
  stats_.active.fall(is_small, 1);
  stats_.active_bytes.fall(is_small, bytes);
  stats_.requested_bytes.fall(is_small, requested_bytes);
  for (UsageStats* usage : {&block.pool->usage(), block.stream_usage}) {
    usage->active_bytes.fall(bytes);
    usage->requested_bytes.fall(requested_bytes);
  }
}

void ClassicEngine::count_reserved(const ClassicBlock& block, size_t bytes) {
  const bool is_small = block.pool->is_small();
  held_bytes_ += bytes;
  ++stats_.device_allocs;
  for (StatTriple* reserved : {&stats_.reserved_bytes, &block.pool->usage().reserved_bytes,
                               &block.stream_usage->reserved_bytes}) {
    reserved->rise(is_small, static_cast<int64_t>(bytes));
  }
  if (block.expandable != nullptr) return;
  stats_.segment.rise(is_small, 1);
  if (bytes >= sizes_.max_split_bytes()) stats_.oversize_segments.rise(1);
}

void ClassicEngine::count_given_back(const ClassicBlock& block, size_t bytes) {
  const bool is_small = block.pool->is_small();
  held_bytes_ -= bytes;
  ++stats_.device_frees;
  for (StatTriple* reserved : {&stats_.reserved_bytes, &block.pool->usage().reserved_bytes,
                               &block.stream_usage->reserved_bytes}) {
    reserved->fall(is_small, static_cast<int64_t>(bytes));
  }
  if (block.expandable != nullptr) return;
  stats_.segment.fall(is_small, 1);
  if (bytes >= sizes_.max_split_bytes()) stats_.oversize_segments.fall(1);
}

// Free parts of plain segments that are split: how many more there are, and how many bytes more.
void ClassicEngine::count_inactive_split(bool is_small, int64_t more, int64_t more_bytes) {
  const auto change = [&](StatTriple& stat, int64_t by) {
    if (by > 0) stat.rise(is_small, by);
    if (by < 0) stat.fall(is_small, -by);
  };
  change(stats_.inactive_split, more);
  change(stats_.inactive_split_bytes, more_bytes);
}

}  // namespace ashlar::classic
