// SPDX-License-Identifier: Apache-2.0
//
// The free blocks, by size class: found again in constant time, the most recently freed first, as
// its pages are the most likely to be in some processor's cache. It points to blocks and owns none.
// Guarded by the allocator's lock.
#pragma once

#include <vector>

#include "host/pinned_block.h"
#include "host/pinned_sizes.h"

namespace ashlar {

class PinnedCache {
 public:
  explicit PinnedCache(const PinnedSizes& sizes) : sizes_(sizes), classes_(sizes.class_count()) {}

  void insert(PinnedBlock* block);
  // The smallest block that fits, taken out; of equals, the one inserted last. Null if none fits.
  PinnedBlock* take(const PinnedFit& fit);
  // Takes out everything that can go back to the host: all but parts of the reserve segment.
  std::vector<PinnedBlock*> take_returnable();
  std::vector<PinnedBlock*> take_all();

  size_t block_count() const;

 private:
  using Class = std::vector<PinnedBlock*>;  // in the order of insertion

  // The best of one class; its end if none fits.
  static Class::iterator best_of(Class& blocks, const PinnedFit& fit);

  const PinnedSizes& sizes_;
  std::vector<Class> classes_;
};

}  // namespace ashlar
