// SPDX-License-Identifier: Apache-2.0
//
// A tagged pool that one thread pauses and resumes, with and without a backup of its contents,
// while other threads use the released memory.
#pragma once

#include <optional>
#include <string>

#include "environment.h"

namespace ashlar::stress {

class PoolPauseWorkload {
 public:
  PoolPauseWorkload(Environment& environment, Random& random, size_t index)
      : environment_(environment),
        random_(random),
        tag_("paused pool of thread " + std::to_string(index)) {}

  void step();
  // Frees all blocks and releases the pool, whether it is paused or not.
  void free_all();
  size_t live_count(size_t device) const { return live_.count_on(device); }

 private:
  enum class Contents { kPresent, kKept, kLost };

  paged::PagedEngine& engine() { return environment_.engine(device_); }
  void make_pool();
  void allocate();
  void pause();
  void resume();
  bool is_resumed() const { return contents_ == Contents::kPresent; }

  Environment& environment_;
  Random& random_;
  const std::string tag_;
  size_t device_ = 0;
  std::optional<PoolId> pool_;
  LiveBlocks live_;
  Contents contents_ = Contents::kPresent;
};

}  // namespace ashlar::stress
