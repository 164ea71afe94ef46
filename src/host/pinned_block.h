// SPDX-License-Identifier: Apache-2.0
//
// A block of pinned host memory: its origin, owner and pending uses. Blocks are never split or
// merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ashlar/types.h"
#include "device/stream_use.h"

namespace ashlar {

class PinnedAllocator;
struct PinnedPool;

// Tells how memory was obtained, which determines how it is released.
enum class PinnedOrigin {
  kAllocated,   // Device::allocate_host
  kRegistered,  // allocated on the host heap, pages touched, then Device::register_host
  kReserved,    // part of the reserve segment; kept until the allocator is destroyed
};

struct PinnedMemory {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  PinnedOrigin origin = PinnedOrigin::kAllocated;
};

enum class PinnedState {
  kAllocated,  // owned by the caller
  kPending,    // freed, but streams may still use it; in PinnedPending
  kInGraph,    // freed, but kept for the graphs of `captures`
  kFree,       // cached, or about to be released to the host
  kNone,       // an unused record without memory
};

// Guarded by the allocator's lock, except that PinnedPending owns `uses` and `event_count` while
// the block is pending.
struct PinnedBlock {
  PinnedState state = PinnedState::kNone;
  const PinnedAllocator* owner = nullptr;
  PinnedMemory memory;
  PinnedPool* pool = nullptr;       // the pool that caches the freed block; null: no memory
  size_t requested_bytes = 0;       // size passed to allocate; 0 unless the block is active
  std::vector<DeviceStream> uses;   // streams whose queued work needs the block
  std::vector<CaptureId> captures;  // captures that used the block and whose graphs may still run
  uint32_t event_count = 0;         // events that must complete before the block is free
  // Neighbours in the list that contains the block, if any; see PinnedBlockList.
  PinnedBlock* previous = nullptr;
  PinnedBlock* next = nullptr;

  size_t bytes() const { return memory.bytes; }
  bool is_active() const {
    return state == PinnedState::kAllocated || state == PinnedState::kPending ||
           state == PinnedState::kInGraph;
  }
};

// A list of blocks, linked through the blocks, so that no operation needs memory. A block is in at
// most one list: the free list of its size class, or a queue of blocks in the same state. Does not
// own the blocks.
class PinnedBlockList {
 public:
  bool empty() const { return first_ == nullptr; }
  PinnedBlock* first() const { return first_; }
  PinnedBlock* last() const { return last_; }
  void push_back(PinnedBlock* block) {
    block->previous = last_;
    block->next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = block;
    last_ = block;
  }
  void erase(PinnedBlock* block) {
    (block->previous == nullptr ? first_ : block->previous->next) = block->next;
    (block->next == nullptr ? last_ : block->next->previous) = block->previous;
    block->previous = block->next = nullptr;
  }
  // Return null if the list is empty.
  PinnedBlock* pop_front() { return pop(first_); }
  PinnedBlock* pop_back() { return pop(last_); }
  // Moves all blocks of `other` to the end of this list.
  void append(PinnedBlockList& other) {
    while (PinnedBlock* block = other.pop_front()) push_back(block);
  }

 private:
  PinnedBlock* pop(PinnedBlock* block) {
    if (block != nullptr) erase(block);
    return block;
  }

  PinnedBlock* first_ = nullptr;
  PinnedBlock* last_ = nullptr;
};

}  // namespace ashlar
