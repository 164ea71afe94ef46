// SPDX-License-Identifier: Apache-2.0
//
// The classic engine's blocks: their type, and the store that owns them. A block belongs to one
// segment, and to that segment's stream, for its whole life. Guarded by the engine's lock.
#pragma once

#include <deque>
#include <vector>

#include "ashlar/stats.h"
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
  uint64_t free_since = 0;             // the pool's search_count when the block became free
  uint64_t serial = 0;                 // number of the block's creation; 0 while unused
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
class BlockStore {
 public:
  ClassicBlock* create() {
    if (unused_.empty()) {
      blocks_.emplace_back();
      unused_.push_back(&blocks_.back());
    }
    ClassicBlock* block = unused_.back();
    unused_.pop_back();
    *block = ClassicBlock{};
    block->serial = ++last_serial_;
    return block;
  }
  void destroy(ClassicBlock* block) {
    block->serial = 0;
    unused_.push_back(block);
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
  std::deque<ClassicBlock> blocks_;
  std::vector<ClassicBlock*> unused_;
  uint64_t last_serial_ = 0;
};

}  // namespace ashlar::classic
