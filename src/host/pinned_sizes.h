// SPDX-License-Identifier: Apache-2.0
//
// How large a block of pinned memory is for a request, and which cached blocks may serve it.
//
// Ours: sizes up to 32 KiB are whole pages of 4 KiB, larger ones have eight steps per power of two.
//   new memory      block - request  <  max(request / 8, 4 KiB)
//   a cached block  block - request  <= max(request / 4, 4 KiB)
// PyTorch's (`pytorch_compatible`): powers of two up to the thresholds, exact sizes above, and a
// cached block of the same power of two: less than twice the request.
//
// Arithmetic only; constant after construction, so any thread may ask.
#pragma once

#include <cstddef>

#include "ashlar/options.h"

namespace ashlar {

// A block for a request has at least `block_bytes` (new memory: exactly) and at most `most_bytes`.
struct PinnedFit {
  size_t block_bytes = 0;
  size_t most_bytes = 0;
};

class PinnedSizes {
 public:
  static constexpr size_t kPageBytes = 4096;
  // No host has an exabyte, and below it no sum here overflows.
  static constexpr size_t kUnreasonableBytes = size_t{1} << 60;

  explicit PinnedSizes(const AllocatorOptions& options);

  // REQUIRES: 0 < requested_bytes < kUnreasonableBytes.
  PinnedFit fit(size_t requested_bytes) const;
  // Larger blocks go back to the host instead of into the cache.
  bool is_cacheable(size_t block_bytes) const { return block_bytes <= max_cached_bytes_; }

  // Size classes partition all sizes: class i holds the blocks above class_bytes(i - 1), up to and
  // with class_bytes(i). REQUIRES: a size of at most twice kUnreasonableBytes, but not 0.
  size_t class_of(size_t bytes) const;
  size_t class_bytes(size_t index) const;
  size_t class_count() const;

 private:
  const bool powers_of_two_;
  const size_t max_round_bytes_;
  const size_t max_cached_bytes_;
};

}  // namespace ashlar
