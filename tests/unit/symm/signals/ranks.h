// SPDX-License-Identifier: Apache-2.0
//
// Ranks for tests: threads of this process, or processes of their own, on memory that all of them
// share.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "symm/core/failure.h"
#include "symm/signals/signal_pad.h"

namespace ashlar::symm::testing {

// One piece of zeros for each rank, in a file without a name, so that processes forked later share
// it. Each is surrounded by guard bytes.
class RankMemory {
 public:
  RankMemory(int world_size, size_t bytes);
  ~RankMemory();
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  std::byte* of(int rank) const { return bases_[static_cast<size_t>(rank)]; }
  std::vector<std::byte*> bases() const { return bases_; }
  size_t bytes() const { return bytes_; }
  bool guards_are_whole() const;

 private:
  size_t bytes_;
  size_t mapped_bytes_;
  std::byte* mapping_;
  std::vector<std::byte*> bases_;
};

// Pads for that many ranks, and what each rank sees of them.
class RankPads {
 public:
  explicit RankPads(int world_size, int channel_count = 2);

  SignalPads of(int rank) const;
  RankMemory& memory() { return memory_; }

 private:
  int channel_count_;
  RankMemory memory_;
};

// Runs `act` once for each rank and returns when all have ended. A process that does not within a
// minute, or whose assertions fail, is a failure of the test.
void run_as_threads(int world_size, const std::function<void(int rank)>& act);
void run_as_processes(int world_size, const std::function<void(int rank)>& act);

// Deadlines of tests: far away, for what must succeed; a moment, for what cannot.
Deadline far_away();
Deadline a_moment();

}  // namespace ashlar::symm::testing
