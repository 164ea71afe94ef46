// SPDX-License-Identifier: Apache-2.0
//
// The free blocks of a pool, by size class. Among blocks of equal size, the most recently freed
// block is reused first, because its pages are most likely in a processor cache. The cache does not
// own blocks, and needs no memory after its construction. Guarded by the allocator's lock.
#pragma once

#include <vector>

#include "host/pinned_block.h"
#include "host/pinned_size_policy.h"

namespace ashlar {

class PinnedCache {
 public:
  explicit PinnedCache(const PinnedSizePolicy& sizes)
      : size_policy_(sizes), classes_(sizes.class_count()) {}

  void insert(PinnedBlock* block);
  // Removes and returns the smallest block that fits; among blocks of equal size, the block
  // inserted last. Returns null if no block fits.
  PinnedBlock* take(const PinnedFit& fit);
  // Moves all blocks to `taken`, except parts of the reserve segment, which cannot be released to
  // the host.
  void take_releasable(PinnedBlockList& taken);
  PinnedBlockList take_all();

  size_t block_count() const;

 private:
  // Returns the best fit in one class; null if no block fits.
  static PinnedBlock* find_best(const PinnedBlockList& blocks, const PinnedFit& fit);

  const PinnedSizePolicy& size_policy_;
  std::vector<PinnedBlockList> classes_;  // free lists, in order of insertion
};

}  // namespace ashlar
