// SPDX-License-Identifier: Apache-2.0
//
// Free blocks by size class: constant-time lookup, most recently freed first, because their pages
// are most likely in a processor cache. Does not own blocks. Guarded by the allocator's lock.
#pragma once

#include <vector>

#include "host/pinned_block.h"
#include "host/pinned_sizes.h"

namespace ashlar {

class PinnedCache {
 public:
  explicit PinnedCache(const PinnedSizes& sizes) : sizes_(sizes), classes_(sizes.class_count()) {}

  void insert(PinnedBlock* block);
  // Removes and returns the smallest block that fits; among equals, the last inserted. Null if none
  // fits.
  PinnedBlock* take(const PinnedFit& fit);
  // Removes and returns all blocks that can be released to the host: all but parts of the reserve
  // segment.
  std::vector<PinnedBlock*> take_releasable();
  std::vector<PinnedBlock*> take_all();

  size_t block_count() const;

 private:
  using Class = std::vector<PinnedBlock*>;  // in order of insertion

  // The best fit in one class; the end if none fits.
  static Class::iterator best_of(Class& blocks, const PinnedFit& fit);

  const PinnedSizes& sizes_;
  std::vector<Class> classes_;
};

}  // namespace ashlar
