// SPDX-License-Identifier: Apache-2.0
//
// Block and segment sizes under the options of a recording. Alloc entries contain only requested
// sizes, so the block sizes have to be computed.
#pragma once

#include "ashlar/options.h"
#include "ashlar/snapshot.h"
#include "engine/paged/pool/size_classes.h"
#include "engine/size_policy.h"

namespace ashlar {

// Returns whether a segment of this size belongs to the large-block pool. Small segments have a
// fixed size; large segments have at least 10 MiB.
inline bool is_large_segment(size_t bytes) { return bytes != kSmallSegmentBytes; }

class RecordedSizePolicy {
 public:
  explicit RecordedSizePolicy(const AllocatorOptions& recorded)
      : policy_(recorded),
        is_paged_(recorded.engine == EngineKind::kPaged),
        splits_exactly_(is_paged_ || recorded.expandable_segments) {}

  // Returns the minimum size of the block for a request.
  // REQUIRES: 0 < requested_bytes < kRequestLimitBytes.
  size_t block_bytes(size_t requested_bytes) const {
    return is_paged_ ? paged::SizeClasses::block_bytes(requested_bytes)
                     : policy_.block_bytes(requested_bytes);
  }
  size_t segment_bytes(size_t block_bytes) const { return policy_.segment_bytes(block_bytes); }
  // Returns the size of the units in which expandable segments are mapped and unmapped.
  size_t granule_bytes(bool is_large) const { return policy_.expandable_granule_bytes(!is_large); }

  // Returns whether the remainder of a free block becomes a free block of its own when a block of
  // `block_bytes` is taken from it; otherwise the new block keeps the remainder.
  bool splits_off(size_t remainder_bytes, size_t block_bytes,
                  const SnapshotSegment& segment) const {
    const bool is_exact = splits_exactly_ || segment.is_expandable || !segment.is_large;
    if (is_exact) return remainder_bytes >= kMinBlockBytes;
    return block_bytes < policy_.max_split_bytes() && remainder_bytes > kSmallLimitBytes;
  }

 private:
  SizePolicy policy_;
  bool is_paged_;
  bool splits_exactly_;
};

}  // namespace ashlar
