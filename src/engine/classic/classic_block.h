// SPDX-License-Identifier: Apache-2.0
//
// The classic engine's blocks: their type, and the store that owns them. A block belongs to one
// segment, and to that segment's stream, for its whole life. Guarded by the engine's lock.
#pragma once

#include <deque>

#include "ashlar/stats.h"
#include "base/check.h"
#include "base/intrusive_tree.h"
#include "engine/block.h"

namespace ashlar::classic {

class FreePool;
class ExpandableSegment;

// The TreeNode links a free or unmapped block into its pool's index.
struct ClassicBlock : Block, TreeNode {
  FreePool* pool = nullptr;
  ExpandableSegment* expandable = nullptr;  // null: part of a plain segment
  ClassicBlock* previous = nullptr;         // neighbours in the same segment, in address order
  ClassicBlock* next = nullptr;
  uint64_t free_since = 0;             // FreePool::search_count when the block entered its index
  uint64_t serial = 0;                 // creation number; 0 while the object is unused
  uint64_t segment_serial = 0;         // serial of the block that the segment was created with
  UsageStats* stream_usage = nullptr;  // the stream's entry in the engine's statistics
  StackId segment_stack{};             // call stack that obtained the segment's memory

  bool is_split() const { return previous != nullptr || next != nullptr; }
};

// REQUIRES: `block` came from a classic engine.
inline ClassicBlock* as_classic(Block* block) { return static_cast<ClassicBlock*>(block); }
inline const ClassicBlock* as_classic(const Block* block) {
  return static_cast<const ClassicBlock*>(block);
}

// Owns all blocks of an engine. Creation and destruction take constant time; blocks never move.
// Destruction never fails.
class BlockStore {
 public:
  // Memory for blocks. During its lifetime, its owner's first `count` calls of `create` cannot
  // fail. An operation reserves the blocks that it needs before its first change. Every creation is
  // covered by a reservation, so that no operation uses up the blocks that another one has
  // reserved.
  class Reservation {
   public:
    Reservation(BlockStore& store, size_t count) : store_(store), count_(count) {
      store.add_unused(store.reserved_count_ + count);
      store.reserved_count_ += count;
    }
    ~Reservation() { store_.reserved_count_ -= count_; }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

   private:
    BlockStore& store_;
    const size_t count_;
  };

  // REQUIRES: the caller has a reservation.
  ClassicBlock* create() {
    ClassicBlock* block = unused_;
    ASHLAR_DCHECK(block != nullptr);
    unused_ = block->next;
    --unused_count_;
    *block = ClassicBlock{};
    block->serial = ++last_serial_;
    return block;
  }
  void destroy(ClassicBlock* block) {
    block->serial = 0;
    put_unused(block);
  }

  // Visits every block that has not been destroyed, in no particular order.
  template <typename Visit>
  void for_each(const Visit& visit) {
    for (ClassicBlock& block : blocks_) {
      if (block.serial != 0) visit(&block);
    }
  }
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const ClassicBlock& block : blocks_) {
      if (block.serial != 0) visit(&block);
    }
  }

 private:
  // Adds blocks until at least `count` are unused.
  void add_unused(size_t count) {
    while (unused_count_ < count) put_unused(&blocks_.emplace_back());
  }
  void put_unused(ClassicBlock* block) {
    block->next = unused_;
    unused_ = block;
    ++unused_count_;
  }

  std::deque<ClassicBlock> blocks_;
  ClassicBlock* unused_ = nullptr;  // linked by `next`
  size_t unused_count_ = 0;
  size_t reserved_count_ = 0;  // the sum over all reservations
  uint64_t last_serial_ = 0;
};

}  // namespace ashlar::classic
