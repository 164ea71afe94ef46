// The invariants of the classic engine, as code: what tests and the dev preset check after every
// operation.
#include <set>

#include "base/text.h"
#include "engine/classic/classic_engine.h"

namespace ashlar::classic {
namespace {

Status broken(std::string what) { return Status::device_fault("validate", 0, std::move(what)); }

// One pool's free blocks: each free, mapped as it should be, and not beside one it should have been
// merged with.
Status check_pool(const FreePool& pool, size_t& free_bytes) {
  for (const Block* block : pool.blocks()) {
    if (block->state != BlockState::kFree) {
      return broken(text("the block at ", block->address, " is in a pool but not free"));
    }
    if (block->pool != &pool) return broken(text(block->address, " is in a foreign pool"));
    for (const Block* neighbour : {block->previous, block->next}) {
      if (neighbour == nullptr) continue;
      if (neighbour->state == BlockState::kFree) {
        return broken(text("free neighbours at ", block->address, " were not merged"));
      }
    }
    if (block->next != nullptr && block->next->address != block->end()) {
      return broken(text("a gap after the block at ", block->address));
    }
    free_bytes += block->bytes;
  }
  for (const Block* block : pool.unmapped()) {
    if (block->state != BlockState::kUnmapped) {
      return broken(text("the block at ", block->address, " is not unmapped"));
    }
  }
  return {};
}

}  // namespace

Status ClassicEngine::validate() const {
  MutexLock lock(mutex_);
  size_t free_bytes = 0;
  size_t block_count = active_.size();
  std::vector<const FreePool*> all = {&large_, &small_};
  for (const auto& [id, pool] : pools_) {
    all.push_back(&pool->large);
    all.push_back(&pool->small);
  }
  for (const FreePool* pool : all) {
    if (Status checked = check_pool(*pool, free_bytes); !checked.ok()) return checked;
    block_count += pool->blocks().size() + pool->unmapped().size();
  }
  int64_t active_bytes = 0;
  int64_t allocated_bytes = 0;
  int64_t requested_bytes = 0;
  for (const Block* block : active_) {
    if (!block->is_active()) return broken(text(block->address, " is listed active and is not"));
    if (block->next != nullptr && block->next->address != block->end()) {
      return broken(text("a gap after the block at ", block->address));
    }
    active_bytes += static_cast<int64_t>(block->bytes);
    requested_bytes += static_cast<int64_t>(block->requested_bytes);
    if (block->is_allocated()) allocated_bytes += static_cast<int64_t>(block->bytes);
  }
  const auto reserved = active_bytes + static_cast<int64_t>(free_bytes);
  if (block_count != blocks_.live_count()) return broken("a block is in no list, or in two");
  if (active_bytes != stats_.active_bytes.all.current) return broken("active_bytes is off");
  if (allocated_bytes != stats_.allocated_bytes.all.current)
    return broken("allocated_bytes is off");
  if (requested_bytes != stats_.requested_bytes.all.current)
    return broken("requested_bytes is off");
  if (reserved != stats_.reserved_bytes.all.current) return broken("reserved_bytes is off");
  if (held_bytes_ != static_cast<size_t>(reserved)) return broken("held bytes are off");
  return {};
}

}  // namespace ashlar::classic
