// SPDX-License-Identifier: Apache-2.0
//
// Where blocks live: taken and given back in constant time, never moved. The engine that owns the
// store owns the blocks; everything else points to them. Guarded by the engine's lock.
#pragma once

#include <deque>
#include <vector>

#include "engine/classic/classic_block.h"

namespace ashlar::classic {

class BlockStore {
 public:
  // A fresh block with a new serial.
  ClassicBlock* take() {
    if (spare_.empty()) {
      blocks_.emplace_back();
      spare_.push_back(&blocks_.back());
    }
    ClassicBlock* block = spare_.back();
    spare_.pop_back();
    *block = ClassicBlock{};
    block->serial = ++last_serial_;
    return block;
  }
  void give_back(ClassicBlock* block) {
    block->serial = 0;
    spare_.push_back(block);
  }

  // Every block that is taken, in no order worth knowing.
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
  std::vector<ClassicBlock*> spare_;
  uint64_t last_serial_ = 0;
};

}  // namespace ashlar::classic
