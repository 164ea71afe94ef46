// SPDX-License-Identifier: Apache-2.0
//
// Runs the collectives of one group on one rank, one at a time, since they share the group's pad.
//
// A collective is a sequence of steps. A step that waits may time out. Repeating the same call then
// continues with the step that timed out, without repeating the steps before it. Any other call is
// rejected until the collective is complete, because the other ranks are still inside it.
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

enum class CollectiveKind : uint8_t {
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
  kExpertAllToAll,
};

// The kind and the arguments of a collective call that must be equal on all ranks. Ranks exchange
// signatures through PadLine::signature. In an all-to-all-v, each rank sends its peers signatures
// with the size and offset of their shares, which may differ.
struct CallSignature {
  uint64_t code = 0;  // the kind, and arguments that depend on it; see `signature_of`
  uint64_t bytes = 0;
  uint64_t offset_bytes = 0;
  uint32_t memory = 0;  // SymmetricRange::memory

  // The accesses are relaxed, because a barrier lies between the write and the read.
  void write_to(PadLine& line) const;
  static CallSignature read_from(const PadLine& line);
  static uint64_t encode(CollectiveKind operation, Reduction reduction = {}, int root = 0);
  std::string to_string() const;  // "one-shot all-reduce (sum of f32, in place, 4096 bytes at 0)"
  bool operator==(const CallSignature&) const = default;
};

class CollectiveRunner {
 public:
  // State that a collective keeps between steps, including across a timeout.
  struct Progress {
    std::vector<std::byte> scratch;
    // An error if the calls do not match or, in an all-to-all-v, the rows cannot be received. If
    // so, later steps do no work.
    Status outcome;
    bool has_left = false;  // whether this rank, after a mismatch, has passed the final barrier
  };
  using Step = std::function<Status(Progress&)>;

  // Runs the steps in order and returns their outcome. After kTimeout, the same call has to be
  // repeated to continue. Any other error from a step, such as a failure of the group, ends the
  // collective. Returns kInvalidArgument if another collective is unfinished.
  Status run(const CallSignature& call, Deadline deadline, std::initializer_list<Step> steps)
      ASHLAR_EXCLUDES(mutex_);

 private:
  TimedMutex mutex_;  // held during `run`
  CallSignature call_ ASHLAR_GUARDED_BY(mutex_);
  bool is_unfinished_ ASHLAR_GUARDED_BY(mutex_) = false;
  size_t next_step_ ASHLAR_GUARDED_BY(mutex_) = 0;
  Progress progress_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
