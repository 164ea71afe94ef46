// SPDX-License-Identifier: Apache-2.0
//
// How large things are: the bytes of a block for a request, which pool it belongs to, the segment
// to ask the device for, and when a block is split. Pure arithmetic over the options.
#pragma once

#include <cstddef>

#include "ashlar/options.h"

namespace ashlar {

inline constexpr size_t kMinBlockBytes = 512;                  // every block is a multiple
inline constexpr size_t kSmallLimitBytes = size_t{1} << 20;    // larger blocks are large ones
inline constexpr size_t kSmallSegmentBytes = size_t{2} << 20;  // also the small expandable granule
inline constexpr size_t kOwnSegmentBytes = size_t{10} << 20;   // from here on, a segment of its own
inline constexpr size_t kSegmentRoundingBytes = size_t{2} << 20;
inline constexpr size_t kUnreasonableBytes = size_t{1} << 60;  // refused without looking

class SizePolicy {
 public:
  explicit SizePolicy(const AllocatorOptions& options);

  // REQUIRES: requested_bytes below kUnreasonableBytes.
  size_t block_bytes(size_t requested_bytes) const;
  static bool is_small(size_t block_bytes) { return block_bytes <= kSmallLimitBytes; }
  size_t segment_bytes(size_t block_bytes) const;
  size_t expandable_granule_bytes(bool is_small) const;

  // Larger blocks are never split. SIZE_MAX: there are none.
  size_t max_split_bytes() const { return max_split_bytes_; }
  // Whether a free block may serve a request for `block_bytes`, as far as oversize goes.
  bool may_serve(size_t free_bytes, size_t block_bytes) const;

 private:
  const size_t large_segment_bytes_;
  const size_t max_split_bytes_;
  const size_t max_non_split_rounding_bytes_;
  const std::array<uint32_t, AllocatorOptions::kRoundupSlotCount> divisions_;
};

}  // namespace ashlar
