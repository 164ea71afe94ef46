// SPDX-License-Identifier: Apache-2.0
//
// Live blocks and their expected contents.
#pragma once

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "stamps.h"

namespace ashlar::stress {

struct LiveBlock {
  size_t device = 0;
  Block* block = nullptr;
  Stamp stamp;
};

// An unordered set of live blocks. Not thread safe.
class LiveBlocks {
 public:
  void add(const LiveBlock& held) {
    blocks_.push_back(held);
    bytes_ += held.stamp.bytes;
  }
  // REQUIRES, for `any` and `take_any`: not empty.
  const LiveBlock& any(Random& random) const { return blocks_[random.below(blocks_.size())]; }
  LiveBlock take_any(Random& random) {
    std::swap(blocks_[random.below(blocks_.size())], blocks_.back());
    const LiveBlock taken = blocks_.back();
    blocks_.pop_back();
    bytes_ -= taken.stamp.bytes;
    return taken;
  }

  bool empty() const { return blocks_.empty(); }
  size_t size() const { return blocks_.size(); }
  size_t bytes() const { return bytes_; }
  size_t count_on(size_t device) const {
    return static_cast<size_t>(
        std::count_if(blocks_.begin(), blocks_.end(),
                      [&](const LiveBlock& held) { return held.device == device; }));
  }
  auto begin() { return blocks_.begin(); }
  auto end() { return blocks_.end(); }

 private:
  std::vector<LiveBlock> blocks_;
  size_t bytes_ = 0;
};

}  // namespace ashlar::stress
