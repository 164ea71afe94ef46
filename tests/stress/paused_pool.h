// SPDX-License-Identifier: Apache-2.0
//
// A tagged pool of one thread, paused and resumed with its contents kept or rewritten, while other
// threads use the memory.
#pragma once

#include <optional>
#include <string>

#include "environment.h"

namespace ashlar::stress {

class PausedPool {
 public:
  PausedPool(Environment& field, Random& random, size_t index)
      : environment_(field), random_(random), tag_("sleepers of thread " + std::to_string(index)) {}

  void act();
  // Paused or not.
  void free_all();
  size_t live_count(size_t device) const { return live_.count_on(device); }

 private:
  enum class Contents { kPresent, kKept, kLost };

  paged::PagedEngine& engine() { return environment_.engine(device_); }
  void make_pool();
  void allocate();
  void pause();
  void resume();
  bool is_awake() const { return contents_ == Contents::kPresent; }

  Environment& environment_;
  Random& random_;
  const std::string tag_;
  size_t device_ = 0;
  std::optional<PoolId> pool_;
  LiveBlocks live_;
  Contents contents_ = Contents::kPresent;
};

}  // namespace ashlar::stress
