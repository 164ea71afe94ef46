// SPDX-License-Identifier: Apache-2.0
//
// Ranks for tests: threads or forked processes on shared memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "symm/core/failure.h"
#include "symm/signals/signal_pad.h"
#include "unit/symm/deadlines.h"

namespace ashlar::symm::testing {

// Zeroed memory for each rank in a memfd, which processes that are forked later share. Guard bytes
// surround the memory.
class RankMemory {
 public:
  RankMemory(int world_size, size_t bytes);
  ~RankMemory();
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  std::byte* memory_of(int rank) const { return bases_[static_cast<size_t>(rank)]; }
  std::vector<std::byte*> bases() const { return bases_; }
  size_t bytes() const { return bytes_; }
  bool guards_are_intact() const;

 private:
  size_t bytes_;
  size_t mapped_bytes_;
  std::byte* mapping_;
  std::vector<std::byte*> bases_;
};

// Signal pads for several ranks, and each rank's view of them.
class RankPads {
 public:
  explicit RankPads(int world_size, int channel_count = 2);

  SignalPads pads_of(int rank) const;
  RankMemory& memory() { return memory_; }

 private:
  int channel_count_;
  RankMemory memory_;
};

// These functions run `body` once per rank, on threads or in forked processes, and return when all
// ranks have finished. A process that takes longer than a minute or has failed assertions fails the
// test.
void run_as_threads(int world_size, const std::function<void(int rank)>& body);
void run_as_processes(int world_size, const std::function<void(int rank)>& body);

}  // namespace ashlar::symm::testing
