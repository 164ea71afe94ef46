// SPDX-License-Identifier: Apache-2.0
//
// One thread of the stress: random acts on all devices and streams, one after the other. Whatever
// it allocates is stamped at once by work on the block's stream, and checked by work queued before
// the block is freed, without the host ever waiting in between.
#pragma once

#include <memory>

#include "field.h"
#include "graphs.h"
#include "passing_streams.h"
#include "session.h"
#include "sleepers.h"

namespace ashlar::stress {

class Worker {
 public:
  Worker(Field& field, uint64_t seed, size_t index)
      : field_(field),
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
  void free(const Held& held);
  void free_half();
  void look();
  void exchange();
  void begin_or_end_session();
  void go_without_cache();
  void limit();
  void trim_to();
  void take_snapshot();
  size_t draw_bytes();

  Field& field_;
  Random random_;
  const size_t index_;
  uint64_t act_count_ = 0;
  HeldBlocks live_;
  std::unique_ptr<Session> session_;
  Sleepers sleepers_;
  Graphs graphs_;
  PassingStreams passing_;
};

}  // namespace ashlar::stress
