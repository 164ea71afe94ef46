// SPDX-License-Identifier: Apache-2.0
//
// Searches the size classes for the best fit.
#include "host/pinned_cache.h"

#include <algorithm>

namespace ashlar {

void PinnedCache::insert(PinnedBlock* block) {
  classes_[sizes_.class_of(block->bytes())].push_back(block);
}

// Searches the classes in ascending order. The sizes that fit belong to at most five classes, and
// the first class with a fitting block has the best fit.
PinnedBlock* PinnedCache::take(const PinnedFit& fit) {
  const size_t last = sizes_.class_of(fit.max_bytes);
  for (size_t index = sizes_.class_of(fit.block_bytes); index <= last; ++index) {
    FreeList& blocks = classes_[index];
    const auto best = find_best(blocks, fit);
    if (best == blocks.end()) continue;
    PinnedBlock* block = *best;
    blocks.erase(best);
    return block;
  }
  return nullptr;
}

// Searches one class. Sizes within a class differ only if requests were not rounded. Usually the
// last block fits exactly and ends the search.
PinnedCache::FreeList::iterator PinnedCache::find_best(FreeList& blocks, const PinnedFit& fit) {
  auto best = blocks.end();
  for (auto it = blocks.end(); it != blocks.begin();) {
    --it;
    const size_t bytes = (*it)->bytes();
    if (bytes < fit.block_bytes || bytes > fit.max_bytes) continue;
    if (best == blocks.end() || bytes < (*best)->bytes()) best = it;
    if (bytes == fit.block_bytes) break;
  }
  return best;
}

std::vector<PinnedBlock*> PinnedCache::take_releasable() {
  std::vector<PinnedBlock*> taken;
  for (FreeList& blocks : classes_) {
    const auto releasable = std::stable_partition(
        blocks.begin(), blocks.end(),
        [](const PinnedBlock* block) { return block->memory.origin == PinnedOrigin::kReserved; });
    taken.insert(taken.end(), releasable, blocks.end());
    blocks.erase(releasable, blocks.end());
  }
  return taken;
}

std::vector<PinnedBlock*> PinnedCache::take_all() {
  std::vector<PinnedBlock*> taken;
  for (FreeList& blocks : classes_) {
    taken.insert(taken.end(), blocks.begin(), blocks.end());
    blocks.clear();
  }
  return taken;
}

size_t PinnedCache::block_count() const {
  size_t count = 0;
  for (const FreeList& blocks : classes_) count += blocks.size();
  return count;
}

}  // namespace ashlar
