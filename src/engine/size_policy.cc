// SPDX-License-Identifier: Apache-2.0
//
// Rounding rules, identical to PyTorch's.
#include "engine/size_policy.h"

#include <algorithm>
#include <bit>

#include "base/align.h"

namespace ashlar {
namespace {

size_t roundup_slot(size_t bytes) {
  const auto log2 = static_cast<size_t>(std::bit_width(bytes)) - 1;
  constexpr size_t kFirstLog2 = 20;  // slot 0 covers all sizes below 2 MiB
  const size_t slot = log2 < kFirstLog2 ? 0 : log2 - kFirstLog2;
  return std::min(slot, AllocatorOptions::kRoundupSlotCount - 1);
}

// Rounds up to a multiple of 1/`divisions` of the largest power of two that is at most `bytes`.
size_t round_up_in_divisions(size_t bytes, uint32_t divisions) {
  if (std::has_single_bit(bytes)) return bytes;
  const size_t floor = std::bit_floor(bytes);
  const size_t step = floor / divisions;
  return step == 0 ? 2 * floor : align_up(bytes, step);
}

}  // namespace

SizePolicy::SizePolicy(const AllocatorOptions& options)
    : large_segment_bytes_(options.large_segment_bytes),
      max_split_bytes_(options.max_split_bytes.value_or(SIZE_MAX)),
      max_non_split_rounding_bytes_(
          options.max_non_split_rounding_bytes.value_or(options.large_segment_bytes)),
      divisions_(options.roundup_power2_divisions) {}

size_t SizePolicy::block_bytes(size_t requested_bytes) const {
  if (requested_bytes < kMinBlockBytes) return kMinBlockBytes;
  const uint32_t divisions = divisions_[roundup_slot(requested_bytes)];
  if (divisions > 1 && requested_bytes > kMinBlockBytes * divisions) {
    return round_up_in_divisions(requested_bytes, divisions);
  }
  return align_up(requested_bytes, kMinBlockBytes);
}

size_t SizePolicy::segment_bytes(size_t block_bytes) const {
  if (is_small(block_bytes)) return kSmallSegmentBytes;
  if (block_bytes < kOwnSegmentBytes) return large_segment_bytes_;
  return align_up(block_bytes, kSegmentRoundingBytes);
}

size_t SizePolicy::expandable_granule_bytes(bool is_small) const {
  return is_small ? kSmallSegmentBytes : large_segment_bytes_;
}

bool SizePolicy::may_serve(size_t free_bytes, size_t block_bytes) const {
  if (block_bytes < max_split_bytes_) return free_bytes < max_split_bytes_;
  return free_bytes < block_bytes + max_non_split_rounding_bytes_;
}

}  // namespace ashlar
