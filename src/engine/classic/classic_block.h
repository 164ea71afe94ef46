// SPDX-License-Identifier: Apache-2.0
//
// A block of the classic engine: part of a segment, and for ever of that segment's stream.
#pragma once

#include "ashlar/stats.h"
#include "base/intrusive_tree.h"
#include "engine/block.h"

namespace ashlar::classic {

class FreePool;
class ExpandableSegment;

// As a TreeNode it is in the index of its pool's free blocks, or of the unmapped ones.
struct ClassicBlock : Block, TreeNode {
  FreePool* pool = nullptr;
  ExpandableSegment* expandable = nullptr;  // null: part of a plain segment
  ClassicBlock* previous = nullptr;         // neighbours in the same segment, by address
  ClassicBlock* next = nullptr;
  uint64_t free_since = 0;  // the pool's search count when it became free; for collection by age
  uint64_t serial = 0;      // rises with every block made: an order for registrations; never 0
  UsageStats* stream_usage = nullptr;  // what its stream has; of the engine's statistics
  StackId segment_stack{};             // of whoever made the device give its memory

  bool is_split() const { return previous != nullptr || next != nullptr; }
};

// REQUIRES: it came from a classic engine.
inline ClassicBlock* as_classic(Block* block) { return static_cast<ClassicBlock*>(block); }
inline const ClassicBlock* as_classic(const Block* block) {
  return static_cast<const ClassicBlock*>(block);
}

}  // namespace ashlar::classic
