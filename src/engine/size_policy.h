// SPDX-License-Identifier: Apache-2.0
//
// Block and segment sizes: rounding of requests, small or large pool, segment size for a request,
// and when to split a block. Pure arithmetic over the options.
#pragma once

#include <cstddef>

#include "ashlar/options.h"

namespace ashlar {

inline constexpr size_t kMinBlockBytes = 512;                  // all block sizes are multiples
inline constexpr size_t kSmallLimitBytes = size_t{1} << 20;    // larger blocks use the large pool
inline constexpr size_t kSmallSegmentBytes = size_t{2} << 20;  // also the small expandable granule
inline constexpr size_t kOwnSegmentBytes = size_t{10} << 20;  // larger blocks get their own segment
inline constexpr size_t kSegmentRoundingBytes = size_t{2} << 20;
inline constexpr size_t kUnreasonableBytes = size_t{1} << 60;  // rejected without a search

class SizePolicy {
 public:
  explicit SizePolicy(const AllocatorOptions& options);

  // REQUIRES: requested_bytes below kUnreasonableBytes.
  size_t block_bytes(size_t requested_bytes) const;
  static bool is_small(size_t block_bytes) { return block_bytes <= kSmallLimitBytes; }
  size_t segment_bytes(size_t block_bytes) const;
  size_t expandable_granule_bytes(bool is_small) const;

  // Blocks above this size are never split. SIZE_MAX means no limit.
  size_t max_split_bytes() const { return max_split_bytes_; }
  // Whether the limits for oversize blocks let a free block serve a request for `block_bytes`.
  bool may_serve(size_t free_bytes, size_t block_bytes) const;

 private:
  const size_t large_segment_bytes_;
  const size_t max_split_bytes_;
  const size_t max_non_split_rounding_bytes_;
  const std::array<uint32_t, AllocatorOptions::kRoundupSlotCount> divisions_;
};

}  // namespace ashlar
