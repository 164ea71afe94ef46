// SPDX-License-Identifier: Apache-2.0
//
// Block and segment sizes: the rounding of requests, the choice between the small and the large
// pool, the segment size for a block, and which free blocks may serve a request. Pure arithmetic
// over the options.
#pragma once

#include <cstddef>

#include "ashlar/options.h"

namespace ashlar {

inline constexpr size_t kMinBlockBytes = 512;                // block_bytes() is a multiple of it
inline constexpr size_t kSmallLimitBytes = size_t{1} << 20;  // larger blocks use the large pool
// The size of plain segments in the small pool, and of granules in its expandable segments.
inline constexpr size_t kSmallSegmentBytes = size_t{2} << 20;
// From this size on, the segment for a block is as large as the block, rounded up.
inline constexpr size_t kOwnSegmentBytes = size_t{10} << 20;
inline constexpr size_t kSegmentRoundingBytes = size_t{2} << 20;
inline constexpr size_t kRequestLimitBytes = size_t{1} << 60;  // requests of this size or more fail

class SizePolicy {
 public:
  explicit SizePolicy(const AllocatorOptions& options);

  // Returns the size of the block for a request. REQUIRES: requested_bytes < kRequestLimitBytes.
  size_t block_bytes(size_t requested_bytes) const;
  static bool is_small(size_t block_bytes) { return block_bytes <= kSmallLimitBytes; }
  // Returns the size of the segment to obtain for a block.
  size_t segment_bytes(size_t block_bytes) const;
  size_t expandable_granule_bytes(bool is_small) const;

  // Blocks of this size or more are oversize: they serve only oversize requests and, unless
  // expandable segments are on, are not split for them. SIZE_MAX means that no block is oversize.
  size_t max_split_bytes() const { return max_split_bytes_; }
  // Whether the limits for oversize blocks permit a free block of `free_bytes` to serve a request
  // for a block of `block_bytes`.
  bool may_serve(size_t free_bytes, size_t block_bytes) const;

 private:
  const size_t large_segment_bytes_;
  const size_t max_split_bytes_;
  const size_t max_non_split_rounding_bytes_;
  const std::array<uint32_t, AllocatorOptions::kRoundupSlotCount> divisions_;
};

}  // namespace ashlar
