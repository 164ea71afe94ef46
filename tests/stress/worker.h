// SPDX-License-Identifier: Apache-2.0
//
// One thread of the stress test: random operations on all devices and streams. Work on a block's
// stream stamps the block after its allocation and checks it before its free. The thread does not
// wait for this work.
#pragma once

#include <memory>

#include "environment.h"
#include "graphs.h"
#include "paused_pool.h"
#include "session.h"
#include "transient_streams.h"

namespace ashlar::stress {

class Worker {
 public:
  Worker(Environment& environment, uint64_t seed, size_t index)
      : environment_(environment),
        random_(seed + index),
        index_(index),
        paused_pool_(environment, random_, index),
        graphs_(environment, random_),
        transient_streams_(environment, random_) {}

  void step();
  void free_all();
  size_t live_count(size_t device) const;

 private:
  void allocate();
  void free_one();
  void free(const LiveBlock& held);
  void free_half();
  void check_random_block();
  void exchange();
  void begin_or_end_session();
  void allocate_without_cache();
  void change_limit();
  void trim_to();
  void take_snapshot();
  size_t draw_bytes();

  Environment& environment_;
  Random random_;
  const size_t index_;
  uint64_t step_count_ = 0;
  LiveBlocks live_;
  std::unique_ptr<Session> session_;
  PoolPauseWorkload paused_pool_;
  Graphs graphs_;
  TransientStreams transient_streams_;
};

}  // namespace ashlar::stress
