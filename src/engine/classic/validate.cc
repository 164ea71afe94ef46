// SPDX-License-Identifier: Apache-2.0
//
// The invariants of the classic engine, as code: what tests and the dev preset check after every
// operation.
#include "base/text.h"
#include "engine/classic/classic_engine.h"

namespace ashlar::classic {
namespace {

Status broken(std::string what) { return Status::device_fault("validate", 0, std::move(what)); }

// One pool's free blocks: each free, mapped as it should be, and not beside one it should have been
// merged with.
Status check_pool(const FreePool& pool, size_t& free_bytes) {
  for (const ClassicBlock* block : pool.blocks()) {
    if (block->state != BlockState::kFree) {
      return broken(text("the block at ", block->address, " is in a pool but not free"));
    }
    if (block->pool != &pool) return broken(text(block->address, " is in a foreign pool"));
    for (const ClassicBlock* neighbour : {block->previous, block->next}) {
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
  for (const ClassicBlock* block : pool.unmapped()) {
    if (block->state != BlockState::kUnmapped) {
      return broken(text("the block at ", block->address, " is not unmapped"));
    }
  }
  return {};
}

// What the counters say now against sums over the blocks. For pools and streams, what they reserve
// must add up to the whole.
Status check_counters(const AllocatorStats& sums, const AllocatorStats& counted) {
  const auto differ = [](const StatTriple& a, const StatTriple& b) {
    return a.all.current != b.all.current;
  };
  if (differ(sums.active_bytes, counted.active_bytes)) return broken("active_bytes is off");
  if (differ(sums.allocated_bytes, counted.allocated_bytes)) {
    return broken("allocated_bytes is off");
  }
  if (differ(sums.requested_bytes, counted.requested_bytes)) {
    return broken("requested_bytes is off");
  }
  if (differ(sums.reserved_bytes, counted.reserved_bytes)) return broken("reserved_bytes is off");
  const auto check_parts = [&](auto summed, const auto& parts) -> Status {
    int64_t reserved = 0;
    for (const auto& [id, part] : parts) {
      const UsageStats& sum = summed[id];
      if (sum.active_bytes.current != part.active_bytes.current ||
          sum.allocated_bytes.current != part.allocated_bytes.current ||
          sum.requested_bytes.current != part.requested_bytes.current) {
        return broken("the counters of a pool or a stream are off");
      }
      reserved += part.reserved_bytes.all.current;
    }
    return reserved == counted.reserved_bytes.all.current
               ? Status()
               : broken("what pools or streams reserve does not add up");
  };
  if (Status checked = check_parts(sums.pools, counted.pools); !checked.ok()) return checked;
  return check_parts(sums.streams, counted.streams);
}

}  // namespace

Status ClassicEngine::validate() const {
  MutexLock lock(mutex_);
  size_t free_bytes = 0;
  size_t listed_count = 0;
  std::vector<const FreePool*> all = {&large_, &small_};
  for (const auto& [id, pool] : pools_) all.insert(all.end(), {&pool->large, &pool->small});
  for (const FreePool* pool : all) {
    if (Status checked = check_pool(*pool, free_bytes); !checked.ok()) return checked;
    listed_count += pool->blocks().size() + pool->unmapped().size();
  }
  AllocatorStats sums;
  std::string gap;
  blocks_.for_each([&](const ClassicBlock* block) {
    const ClassicBlock* next = block->next;
    if (next != nullptr && next->address != block->end()) gap = text(block->address);
    if (!block->is_active()) {
      --listed_count;
      return;
    }
    const auto bytes = static_cast<int64_t>(block->bytes);
    const auto requested = static_cast<int64_t>(block->requested_bytes);
    sums.active_bytes.all.current += bytes;
    sums.requested_bytes.all.current += requested;
    if (block->is_allocated()) sums.allocated_bytes.all.current += bytes;
    const PrivatePool* owner = block->pool->owner();
    for (UsageStats* sum :
         {&sums.pools[owner == nullptr ? PoolId{} : owner->id], &sums.streams[block->stream]}) {
      sum->active_bytes.current += bytes;
      sum->requested_bytes.current += requested;
      if (block->is_allocated()) sum->allocated_bytes.current += bytes;
    }
  });
  if (!gap.empty()) return broken("a gap after the block at " + gap);
  if (listed_count != 0) return broken("a block is in no list, or in two");
  sums.reserved_bytes.all.current =
      sums.active_bytes.all.current + static_cast<int64_t>(free_bytes);
  if (held_bytes_ != static_cast<size_t>(sums.reserved_bytes.all.current)) {
    return broken("held bytes are off");
  }
  return check_counters(sums, stats_);
}

}  // namespace ashlar::classic
