// SPDX-License-Identifier: Apache-2.0
//
// Replays frees that were pending for a while because another stream used the block. Simulated
// streams with blocked work stand in for the other streams. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ashlar/sim.h"
#include "ashlar/status.h"
#include "engine/engine.h"

namespace ashlar {

// An engine polls every stream that blocks a free. Therefore frees that complete in the order in
// which they were requested share a stand-in stream: the cost of a poll then depends on how often
// frees overtake each other, and not on the number of pending frees. PyTorch, too, polls one queue
// of events per stream, beginning with the oldest event. The order in which one poll completes
// several frees determines the addresses of later blocks
// (docs/internals/experiments/paged_engine.md).
class DelayedFrees {
 public:
  // REQUIRES: `machine` and `engine` outlive this object. The engine uses one of the machine's
  // devices. The machine was created with a seed (sim::Options::seed), because `complete` advances
  // it step by step.
  DelayedFrees(sim::Machine& machine, Engine& engine) : machine_(machine), engine_(engine) {}

  // Frees the block of an allocation. The free stays pending until complete(allocation), which is
  // expected at the trace entry `completed_entry`. If frees are completed in another order than
  // these entries say, those that share a stream complete early.
  Status free(uint32_t allocation, Block* block, uint32_t completed_entry);
  // Completes the free. Does nothing if the free is not pending.
  Status complete(uint32_t allocation);

  // The number of stand-in streams so far. For tests.
  size_t stream_count() const { return stream_count_; }

 private:
  // A stand-in stream. It is paused, and has one task per pending free.
  struct StandInStream {
    StreamId id;
    uint64_t queued_count = 0;
    // The number of tasks that have run. Shared with the tasks, which may run after this object is
    // destroyed.
    std::shared_ptr<uint64_t> run_count = std::make_shared<uint64_t>(0);
  };
  // Streams with pending frees, keyed by the entry at which the last of these frees completes.
  using StandInStreams = std::multimap<uint32_t, StandInStream>;
  struct Pending {
    StandInStreams::iterator stream;
    uint64_t number = 0;  // position of the task among the tasks of its stream
  };

  Result<StandInStreams::iterator> acquire_stream(uint32_t completed_entry);
  Status block_free(StandInStream& stream, Block* block);

  sim::Machine& machine_;
  Engine& engine_;
  StandInStreams streams_;
  std::unordered_map<uint32_t, Pending> pending_;  // keyed by allocation
  std::vector<StandInStream> idle_streams_;        // streams that can be reused
  size_t stream_count_ = 0;
};

}  // namespace ashlar
