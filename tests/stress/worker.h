// SPDX-License-Identifier: Apache-2.0
//
// One thread of the stress: random operations on all devices and streams. Work on a block's stream
// stamps it immediately, and work queued before its free checks it, without any host wait in
// between.
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
  Worker(Environment& field, uint64_t seed, size_t index)
      : environment_(field),
        random_(seed + index),
        index_(index),
        sleepers_(field, random_, index),
        graphs_(field, random_),
        passing_(field, random_) {}

  void act();
  void free_all();
  size_t live_count(size_t device) const;

 private:
  void allocate();
  void free_one();
  void free(const LiveBlock& held);
  void free_half();
  void look();
  void exchange();
  void begin_or_end_session();
  void go_without_cache();
  void limit();
  void trim_to();
  void take_snapshot();
  size_t draw_bytes();

  Environment& environment_;
  Random random_;
  const size_t index_;
  uint64_t act_count_ = 0;
  LiveBlocks live_;
  std::unique_ptr<Session> session_;
  PausedPool sleepers_;
  Graphs graphs_;
  TransientStreams passing_;
};

}  // namespace ashlar::stress
