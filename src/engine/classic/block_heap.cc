// SPDX-License-Identifier: Apache-2.0
//
// Splits and merges blocks, and changes their states.
#include "engine/classic/block_heap.h"

#include <algorithm>

#include "engine/classic/pool_table.h"

namespace ashlar::classic {

ClassicBlock* BlockHeap::create(const AllocParams& params, AddressRange range) {
  ClassicBlock* block = blocks_.create();
  block->address = range.begin;
  block->bytes = range.bytes;
  block->stream = params.request.stream;
  block->pool = params.pool;
  block->stream_usage = &deps_.stats.find_or_add_stream_usage(params.request.stream);
  block->segment_serial = block->serial;
  if (PrivatePool* owner = params.pool->owner()) ++owner->segment_count;
  return block;
}

ClassicBlock* BlockHeap::create_neighbour(const ClassicBlock& like, AddressRange range,
                                          ClassicBlock* previous, ClassicBlock* next) {
  ClassicBlock* block = blocks_.create();
  block->address = range.begin;
  block->bytes = range.bytes;
  block->stream = like.stream;
  block->pool = like.pool;
  block->expandable = like.expandable;
  block->stream_usage = like.stream_usage;
  block->segment_stack = like.segment_stack;
  block->segment_serial = like.segment_serial;
  block->previous = previous;
  block->next = next;
  if (previous != nullptr) previous->next = block;
  if (next != nullptr) next->previous = block;
  return block;
}

ClassicBlock* BlockHeap::allocate(ClassicBlock* block, const AllocParams& params, SplitRule rule) {
  StatsRecorder& stats = deps_.stats;
  const bool was_split = block->is_split();
  const bool is_small = block->pool->is_small();
  const bool is_plain = block->expandable == nullptr;
  const bool is_exact = rule == SplitRule::kExact;
  if (is_exact ? block->bytes > params.block_bytes : should_split(*block, params)) {
    ClassicBlock* rest = block;
    block = split_front(block, params.block_bytes);
    if (is_plain && was_split) {
      stats.record_inactive_split(is_small, 0, -static_cast<int64_t>(block->bytes));
    } else if (is_plain) {
      stats.record_inactive_split(is_small, 1, static_cast<int64_t>(rest->bytes));
    }
  } else if (is_plain && was_split) {
    stats.record_inactive_split(is_small, -1, -static_cast<int64_t>(block->bytes));
  }
  block->state = BlockState::kAllocated;
  block->requested_bytes = params.request.bytes;
  block->stack = params.request.stack;
  deps_.tracer.record(TraceAction::kAlloc, *block, params.request.bytes);
  stats.record_allocated(*block);
  return block;
}

bool BlockHeap::should_split(const ClassicBlock& block, const AllocParams& params) const {
  const PrivatePool* owner = block.pool->owner();
  if (owner != nullptr && owner->options.no_split) return false;
  const size_t rest = block.bytes - params.block_bytes;
  if (block.pool->is_small() || params.expandable) return rest >= kMinBlockBytes;
  return params.block_bytes < deps_.sizes.max_split_bytes() && rest > kSmallLimitBytes;
}

// The remainder keeps the block object and returns to its pool; the front is a new block.
ClassicBlock* BlockHeap::split_front(ClassicBlock* rest, size_t bytes) {
  ClassicBlock* front = create_neighbour(*rest, {rest->address, bytes}, rest->previous, rest);
  rest->address = rest->address + bytes;
  rest->bytes -= bytes;
  rest->pool->insert(rest);
  return front;
}

void BlockHeap::request_free(ClassicBlock* block) {
  block->state = BlockState::kPending;
  deps_.stats.record_free_requested(*block);
  deps_.tracer.record(TraceAction::kFreeRequested, *block, block->requested_bytes);
}

void BlockHeap::complete_free(ClassicBlock* block) {
  deps_.tracer.record(TraceAction::kFreeCompleted, *block, block->requested_bytes);
  deps_.stats.record_free_completed(*block);
  block->requested_bytes = 0;
  block->stack = {};
  block->state = BlockState::kFree;
  deps_.addresses.remove(block);

  int64_t split_count = 0;
  int64_t split_bytes = 0;
  for (ClassicBlock* neighbour : {block->previous, block->next}) {
    const size_t merged = merge(block, neighbour);
    if (merged == 0) continue;
    --split_count;
    split_bytes -= static_cast<int64_t>(merged);
  }
  block->pool->insert(block);
  if (block->expandable != nullptr) return;
  if (block->is_split()) {
    ++split_count;
    split_bytes += static_cast<int64_t>(block->bytes);
  }
  deps_.stats.record_inactive_split(block->pool->is_small(), split_count, split_bytes);
}

size_t BlockHeap::merge(ClassicBlock* into, ClassicBlock* neighbour) {
  if (neighbour == nullptr || neighbour->state != into->state) return 0;
  if (neighbour == into->previous) {
    into->address = neighbour->address;
    into->previous = neighbour->previous;
    if (into->previous != nullptr) into->previous->next = into;
  } else {
    into->next = neighbour->next;
    if (into->next != nullptr) into->next->previous = into;
  }
  if (neighbour->is_mapped()) {
    neighbour->pool->erase(neighbour);
  } else {
    neighbour->pool->erase_unmapped(neighbour);
  }
  const size_t merged = neighbour->bytes;
  into->bytes += merged;
  blocks_.destroy(neighbour);
  return merged;
}

std::vector<ClassicBlock*> BlockHeap::first_blocks(const PrivatePool& pool) {
  std::vector<ClassicBlock*> first_blocks;
  blocks_.for_each([&](ClassicBlock* block) {
    const bool is_first = block->previous == nullptr && block->pool->owner() == &pool;
    if (is_first) first_blocks.push_back(block);
  });
  std::sort(first_blocks.begin(), first_blocks.end(),
            [](const ClassicBlock* a, const ClassicBlock* b) { return a->address < b->address; });
  return first_blocks;
}

}  // namespace ashlar::classic
