// Where blocks live: taken and given back in constant time, never moved. The engine that owns the
// store owns the blocks; everything else points to them. Guarded by the engine's lock.
#pragma once

#include <deque>
#include <vector>

#include "engine/block.h"

namespace ashlar {

class BlockStore {
 public:
  // A fresh block with a new serial.
  Block* take() {
    if (spare_.empty()) {
      blocks_.emplace_back();
      spare_.push_back(&blocks_.back());
    }
    Block* block = spare_.back();
    spare_.pop_back();
    *block = Block{};
    block->serial = ++last_serial_;
    return block;
  }
  void give_back(Block* block) {
    block->serial = 0;
    spare_.push_back(block);
  }

  // Every block that is taken, in no order worth knowing.
  template <typename Visit>
  void for_each(const Visit& visit) {
    for (Block& block : blocks_) {
      if (block.serial != 0) visit(&block);
    }
  }
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const Block& block : blocks_) {
      if (block.serial != 0) visit(&block);
    }
  }

 private:
  std::deque<Block> blocks_;
  std::vector<Block*> spare_;
  uint64_t last_serial_ = 0;
};

}  // namespace ashlar
