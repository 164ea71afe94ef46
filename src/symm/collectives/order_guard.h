// SPDX-License-Identifier: Apache-2.0
//
// Keeps the operations of one group, on one rank, one after the other: they share the group's pad.
//
// An operation is a row of steps, of which those that wait can end too early: at a deadline. Then
// what was done stays done, and the same call made again goes on where it stopped; any other call
// is refused until then, because the other ranks are still in the middle of that one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "symm/collectives/reduce/reduce.h"
#include "symm/core/timed_mutex.h"
#include "symm/signals/signal_pad.h"

namespace ashlar::symm {

enum class Operation : uint8_t {
  kOneShotAllReduce,
  kTwoShotAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kAllToAllV,
  kMultimemAllReduce,
  kMultimemAllGather,
  kReduce,
  kMultimemReduce,
};

// An operation with all that must be the same on every rank. Fits the notes of a pad's line, where
// ranks write it for each other and read it from each other.
struct Call {
  uint64_t code = 0;  // operation, type, reduction, root
  uint64_t bytes = 0;
  uint64_t offset_bytes = 0;
  uint32_t memory = 0;  // which (Piece::memory); 0: there is but one

  // The line's barrier makes it seen, or has.
  void note_in(PadLine& line) const;
  static Call noted_in(const PadLine& line);
  static uint64_t code_of(Operation operation, Reduction what = {}, int root = 0);
  std::string to_string() const;  // "one-shot all-reduce (sum of f32, in place, 4096 bytes at 0)"
  bool operator==(const Call&) const = default;
};

class OrderGuard {
 public:
  // What an operation keeps from one step to the next, also when it ends in between.
  struct Progress {
    std::vector<std::byte> scratch;
    Status outcome;         // other than ok: the ranks disagree; nothing more is read or written
    bool has_left = false;  // if they do: has met the others once more, and is done
  };
  using Step = std::function<Status(Progress&)>;

  // The outcome of all steps in order, which have the same deadline. kTimeout: call it again. Every
  // other failure of a step, such as the group's own, ends the operation. kInvalidArgument: another
  // one is unfinished.
  Status run(const Call& call, Deadline deadline, std::initializer_list<Step> steps)
      ASHLAR_EXCLUDES(mutex_);

 private:
  TimedMutex mutex_;  // for a whole operation
  Call call_ ASHLAR_GUARDED_BY(mutex_);
  bool is_unfinished_ ASHLAR_GUARDED_BY(mutex_) = false;
  size_t next_step_ ASHLAR_GUARDED_BY(mutex_) = 0;  // of call_
  Progress progress_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
