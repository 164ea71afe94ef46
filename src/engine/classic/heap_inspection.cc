// SPDX-License-Identifier: Apache-2.0
//
// Copies blocks to snapshots, and checks the invariants of blocks, pools and counters.
#include "engine/classic/heap_inspection.h"

#include <algorithm>

#include "base/text.h"

namespace ashlar::classic {
namespace {

// Returns a snapshot of the contiguous mapped blocks that begin with `first`.
SnapshotSegment segment_from(const ClassicBlock& first, DeviceIndex device) {
  SnapshotSegment segment;
  segment.device = device;
  segment.address = first.address;
  segment.stream = first.stream;
  segment.is_large = !first.pool->is_small();
  segment.is_expandable = first.expandable != nullptr;
  segment.stack = first.segment_stack;
  if (const PrivatePool* owner = first.pool->owner()) segment.pool = owner->id;
  for (const ClassicBlock* block = &first; block != nullptr && block->is_mapped();
       block = block->next) {
    append_block(*block, segment);
  }
  return segment;
}

Status violation(std::string what) { return Status::device_fault("validate", 0, std::move(what)); }

// Checks that the blocks in the index of a pool are free, leave no gaps, and have been merged with
// free neighbours. Adds their sizes to `free_bytes`.
Status check_pool(const FreePool& pool, size_t& free_bytes) {
  for (const ClassicBlock* block : pool.blocks()) {
    if (block->state != BlockState::kFree) {
      return violation(text("the block at ", block->address, " is in a pool but not free"));
    }
    if (block->pool != &pool) return violation(text(block->address, " is in the wrong pool"));
    for (const ClassicBlock* neighbour : {block->previous, block->next}) {
      if (neighbour == nullptr) continue;
      if (neighbour->state == BlockState::kFree) {
        return violation(text("free neighbours at ", block->address, " were not merged"));
      }
    }
    if (block->next != nullptr && block->next->address != block->end()) {
      return violation(text("a gap after the block at ", block->address));
    }
    free_bytes += block->bytes;
  }
  for (const ClassicBlock* block : pool.unmapped()) {
    if (block->state != BlockState::kUnmapped) {
      return violation(text("the block at ", block->address, " is not unmapped"));
    }
  }
  return {};
}

// Compares counters with sums over the blocks. The reserved bytes of pools, and those of streams,
// must add up to the total.
Status check_counters(const AllocatorStats& sums, const AllocatorStats& counted) {
  const auto differs = [](const StatTriple& a, const StatTriple& b) {
    return a.all.current != b.all.current;
  };
  if (differs(sums.active_bytes, counted.active_bytes)) return violation("active_bytes is off");
  if (differs(sums.allocated_bytes, counted.allocated_bytes)) {
    return violation("allocated_bytes is off");
  }
  if (differs(sums.requested_bytes, counted.requested_bytes)) {
    return violation("requested_bytes is off");
  }
  if (differs(sums.reserved_bytes, counted.reserved_bytes))
    return violation("reserved_bytes is off");
  const auto check_usage = [&](auto sums_by_id, const auto& counted_by_id) -> Status {
    int64_t reserved = 0;
    for (const auto& [id, usage] : counted_by_id) {
      const UsageStats& sum = sums_by_id[id];
      if (sum.active_bytes.current != usage.active_bytes.current ||
          sum.allocated_bytes.current != usage.allocated_bytes.current ||
          sum.requested_bytes.current != usage.requested_bytes.current) {
        return violation("the counters of a pool or a stream are off");
      }
      reserved += usage.reserved_bytes.all.current;
    }
    return reserved == counted.reserved_bytes.all.current
               ? Status()
               : violation("the reserved bytes of pools or streams do not add up");
  };
  if (Status checked = check_usage(sums.pools, counted.pools); !checked.ok()) return checked;
  return check_usage(sums.streams, counted.streams);
}

}  // namespace

void snapshot_segments(const BlockHeap& heap, DeviceIndex device, std::optional<PoolId> pool,
                       EngineSnapshot& snapshot) {
  heap.for_each([&](const ClassicBlock* block) {
    const bool is_first = block->previous == nullptr || !block->previous->is_mapped();
    if (!is_first || !block->is_mapped()) return;
    const PrivatePool* owner = block->pool->owner();
    const PoolId id = owner == nullptr ? PoolId{} : owner->id;
    if (pool && id != *pool) return;
    snapshot.segments.push_back(segment_from(*block, device));
    snapshot.creation_numbers.emplace(block->address, block->segment_serial);
  });
  std::sort(snapshot.segments.begin(), snapshot.segments.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
}

std::vector<DeviceAddress> live_addresses(const BlockHeap& heap, const PrivatePool* pool) {
  std::vector<DeviceAddress> live;
  heap.for_each([&](const ClassicBlock* block) {
    const bool is_live = block->is_allocated() && block->pool->owner() == pool;
    if (is_live) live.push_back(block->address);
  });
  std::sort(live.begin(), live.end());
  return live;
}

AddressRange segment_range(const ClassicBlock& block) {
  const ClassicBlock* first = &block;
  while (first->previous != nullptr) first = first->previous;
  AddressRange range{first->address, 0};
  for (; first != nullptr; first = first->next) range.bytes += first->bytes;
  return range;
}

Status validate_heap(const BlockHeap& heap, const PoolTable& pools, const StatsRecorder& stats) {
  size_t free_bytes = 0;
  size_t indexed_count = 0;
  for (const FreePool* pool : pools.all_free_pools()) {
    if (Status checked = check_pool(*pool, free_bytes); !checked.ok()) return checked;
    indexed_count += pool->blocks().size() + pool->unmapped().size();
  }
  AllocatorStats sums;
  std::string gap;
  heap.for_each([&](const ClassicBlock* block) {
    const ClassicBlock* next = block->next;
    if (next != nullptr && next->address != block->end()) gap = text(block->address);
    if (!block->is_active()) {
      --indexed_count;
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
  if (!gap.empty()) return violation("a gap after the block at " + gap);
  if (indexed_count != 0) return violation("a block is in no index, or in two");
  sums.reserved_bytes.all.current =
      sums.active_bytes.all.current + static_cast<int64_t>(free_bytes);
  return check_counters(sums, stats.stats());
}

}  // namespace ashlar::classic
