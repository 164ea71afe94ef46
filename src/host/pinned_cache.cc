// SPDX-License-Identifier: Apache-2.0
//
// Searches the size classes for the best fit.
#include "host/pinned_cache.h"

namespace ashlar {

void PinnedCache::insert(PinnedBlock* block) {
  classes_[size_policy_.class_of(block->bytes())].push_back(block);
}

// Searches the classes in ascending order. The sizes that fit belong to at most five classes, and
// the first class with a fitting block has the best fit.
PinnedBlock* PinnedCache::take(const PinnedFit& fit) {
  const size_t last = size_policy_.class_of(fit.max_bytes);
  for (size_t index = size_policy_.class_of(fit.block_bytes); index <= last; ++index) {
    PinnedBlock* best = find_best(classes_[index], fit);
    if (best == nullptr) continue;
    classes_[index].erase(best);
    return best;
  }
  return nullptr;
}

// Searches one class. Sizes within a class differ only if requests were not rounded. Usually the
// last block fits exactly and ends the search.
PinnedBlock* PinnedCache::find_best(const PinnedBlockList& blocks, const PinnedFit& fit) {
  PinnedBlock* best = nullptr;
  for (PinnedBlock* block = blocks.last(); block != nullptr; block = block->previous) {
    const size_t bytes = block->bytes();
    if (bytes < fit.block_bytes || bytes > fit.max_bytes) continue;
    if (best == nullptr || bytes < best->bytes()) best = block;
    if (bytes == fit.block_bytes) break;
  }
  return best;
}

void PinnedCache::take_releasable(PinnedBlockList& taken) {
  for (PinnedBlockList& blocks : classes_) {
    for (PinnedBlock *block = blocks.first(), *next = nullptr; block != nullptr; block = next) {
      next = block->next;
      if (block->memory.origin == PinnedOrigin::kReserved) continue;
      blocks.erase(block);
      taken.push_back(block);
    }
  }
}

PinnedBlockList PinnedCache::take_all() {
  PinnedBlockList taken;
  for (PinnedBlockList& blocks : classes_) taken.append(blocks);
  return taken;
}

size_t PinnedCache::block_count() const {
  size_t count = 0;
  for (const PinnedBlockList& blocks : classes_) {
    for (const PinnedBlock* block = blocks.first(); block != nullptr; block = block->next) ++count;
  }
  return count;
}

}  // namespace ashlar
