// One thread of the stress: random acts on all devices and streams, one after the other. Whatever
// it allocates is stamped at once by work on the block's stream, and checked by work queued before
// the block is freed, without the host ever waiting in between.
#pragma once

#include <optional>
#include <vector>

#include "field.h"

namespace ashlar::stress {

class Worker {
 public:
  Worker(Field& field, uint64_t seed, size_t index)
      : field_(field), random_(seed + index), index_(index) {}

  void act();
  void free_all();
  size_t live_count(size_t device) const;

 private:
  // Allocations of this thread go to a pool of their own for a while.
  struct Session {
    size_t device = 0;
    PoolId pool;
  };
  void allocate();
  void free_one();
  void free(const Held& held);
  void free_half();
  void use_elsewhere();
  void exchange();
  void begin_or_end_session();
  void end_session();
  void go_without_cache();
  void limit();
  void fail_something();
  size_t draw_bytes();

  Field& field_;
  Random random_;
  const size_t index_;
  uint64_t act_count_ = 0;
  uint64_t pool_count_ = 0;
  std::vector<Held> live_;
  size_t live_bytes_ = 0;
  std::optional<Session> session_;
};

}  // namespace ashlar::stress
