// SPDX-License-Identifier: Apache-2.0
//
// Determines the block sizes for requests for pinned memory, and which cached blocks may serve
// them.
//
// With Ashlar's sizes, blocks of up to 32 KiB are multiples of 4 KiB; larger blocks have eight
// steps per power of two.
//   new memory      block - request  <  max(request / 8, 4 KiB)
//   a cached block  block - request  <= max(request / 4, 4 KiB)
// With PyTorch's sizes (`pytorch_compatible`), blocks are powers of two up to the options'
// max_round_bytes and max_cached_bytes, and have the exact size above. A cached block may have any
// size up to the next power of two, so less than twice the request.
//
// Pure arithmetic; immutable and thread safe.
#pragma once

#include <cstddef>

#include "ashlar/options.h"

namespace ashlar {

// The sizes of blocks that may serve a request: new memory has exactly `block_bytes`; a cached
// block has at least `block_bytes` and at most `max_bytes`.
struct PinnedFit {
  size_t block_bytes = 0;
  size_t max_bytes = 0;
};

class PinnedSizePolicy {
 public:
  static constexpr size_t kPageBytes = 4096;
  // Requests of this size or more fail, because no host has so much memory. Sums of two sizes below
  // the limit do not overflow.
  static constexpr size_t kRequestLimitBytes = size_t{1} << 60;

  explicit PinnedSizePolicy(const AllocatorOptions& options);

  // REQUIRES: 0 < requested_bytes < kRequestLimitBytes.
  PinnedFit fit(size_t requested_bytes) const;
  // Returns whether freed blocks of this size are cached. Larger blocks are released to the host,
  // unless they are part of the reserve segment.
  bool is_cacheable(size_t block_bytes) const { return block_bytes <= max_cached_bytes_; }

  // Size classes partition all sizes: class i contains the sizes in (class_bytes(i - 1),
  // class_bytes(i)]. REQUIRES: 1 <= bytes <= 2 * kRequestLimitBytes.
  size_t class_of(size_t bytes) const;
  size_t class_bytes(size_t index) const;
  size_t class_count() const;

 private:
  const bool powers_of_two_;
  const size_t max_round_bytes_;
  const size_t max_cached_bytes_;
};

}  // namespace ashlar
