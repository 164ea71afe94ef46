// SPDX-License-Identifier: Apache-2.0
//
// The free blocks of a pool, by size class. Among blocks of equal size, the most recently freed
// block is reused first, because its pages are most likely in a processor cache. The cache does not
// own blocks. Guarded by the allocator's lock.
#pragma once

#include <vector>

#include "host/pinned_block.h"
#include "host/pinned_sizes.h"

namespace ashlar {

class PinnedCache {
 public:
  explicit PinnedCache(const PinnedSizes& sizes) : sizes_(sizes), classes_(sizes.class_count()) {}

  void insert(PinnedBlock* block);
  // Removes and returns the smallest block that fits; among blocks of equal size, the block
  // inserted last. Returns null if no block fits.
  PinnedBlock* take(const PinnedFit& fit);
  // Removes and returns all blocks that can be released to the host, which excludes parts of the
  // reserve segment.
  std::vector<PinnedBlock*> take_releasable();
  std::vector<PinnedBlock*> take_all();

  size_t block_count() const;

 private:
  using FreeList = std::vector<PinnedBlock*>;  // in order of insertion

  // Returns the best fit in one class; the end iterator if no block fits.
  static FreeList::iterator find_best(FreeList& blocks, const PinnedFit& fit);

  const PinnedSizes& sizes_;
  std::vector<FreeList> classes_;
};

}  // namespace ashlar
