// SPDX-License-Identifier: Apache-2.0
//
// Blocks that somebody may use and free, and what must be in them.
#pragma once

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "stamps.h"

namespace ashlar::stress {

struct Held {
  size_t device = 0;
  Block* block = nullptr;
  Stamp stamp;
};

// In no order. Not thread safe.
class HeldBlocks {
 public:
  void add(const Held& held) {
    held_.push_back(held);
    bytes_ += held.stamp.bytes;
  }
  // REQUIRES: not empty.
  const Held& any(Random& random) const { return held_[random.below(held_.size())]; }
  Held take_any(Random& random) {
    std::swap(held_[random.below(held_.size())], held_.back());
    const Held taken = held_.back();
    held_.pop_back();
    bytes_ -= taken.stamp.bytes;
    return taken;
  }

  bool empty() const { return held_.empty(); }
  size_t size() const { return held_.size(); }
  size_t bytes() const { return bytes_; }
  size_t count_on(size_t device) const {
    return static_cast<size_t>(std::count_if(
        held_.begin(), held_.end(), [&](const Held& held) { return held.device == device; }));
  }
  auto begin() { return held_.begin(); }
  auto end() { return held_.end(); }

 private:
  std::vector<Held> held_;
  size_t bytes_ = 0;
};

}  // namespace ashlar::stress
