// SPDX-License-Identifier: Apache-2.0
//
// Blocks that other processes or other devices see: who holds them, where their memory lies, and
// who may touch it.
#include <algorithm>

#include "base/check.h"
#include "engine/classic/act.h"

namespace ashlar::classic {

void ClassicEngine::pin(Block* block) {
  MutexLock lock(mutex_);
  ASHLAR_CHECK(block->is_allocated() || block->pin_count > 0);
  ++block->pin_count;
}

// A held block that was freed is pending and waits for no event yet: those are recorded now, so
// that work queued since the free counts too.
void ClassicEngine::unpin(Block* block) {
  Act act(*this, {});
  ASHLAR_CHECK(block->pin_count > 0);
  --block->pin_count;
  if (block->pin_count > 0 || block->is_allocated()) return;
  if (Status freed = finish_free(as_classic(block)); !freed.ok()) defer_error(freed);
}

BlockMemory ClassicEngine::block_memory(const Block* shared) const {
  const ClassicBlock* block = as_classic(shared);
  MutexLock lock(mutex_);
  BlockMemory memory;
  if (block->expandable != nullptr) {
    const ExpandableSegment& segment = *block->expandable;
    memory.origin = BlockMemory::Origin::kExtents;
    memory.granule_bytes = segment.granule_bytes();
    memory.can_export_fd = segment.can_export_fd();
    memory.range = segment.granules_around({block->address, block->bytes});
    memory.extents = segment.extents_in(memory.range);
    return memory;
  }
  if (source_of(*block->pool) != nullptr) memory.origin = BlockMemory::Origin::kSource;
  const ClassicBlock* first = block;
  while (first->previous != nullptr) first = first->previous;
  memory.range.begin = first->address;
  for (; first != nullptr; first = first->next) memory.range.bytes += first->bytes;
  return memory;
}

Status ClassicEngine::add_accessor(DeviceIndex accessor) {
  MutexLock lock(mutex_);
  if (std::find(accessors_.begin(), accessors_.end(), accessor) != accessors_.end()) return {};
  for (const auto& segment : expandable_) {
    if (Status opened = segment->open_to(accessor); !opened.ok()) return opened;
  }
  accessors_.push_back(accessor);
  return {};
}

bool ClassicEngine::is_accessor(DeviceIndex device) const {
  MutexLock lock(mutex_);
  return std::find(accessors_.begin(), accessors_.end(), device) != accessors_.end();
}

}  // namespace ashlar::classic
