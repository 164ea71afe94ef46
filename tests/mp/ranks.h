// SPDX-License-Identifier: Apache-2.0
//
// Ranks of symmetric memory as real processes: each runs a function and says how it went.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mp/child_process.h"
#include "symm/rendezvous/communicator.h"
#include "unit/symm/stores/store_places.h"

namespace ashlar::symm {

// One rank, in its own process or on its own thread: what a program has before it joins.
struct RankParts {
  static ProcessOptions quick() {
    return {std::chrono::milliseconds(100), std::chrono::milliseconds(2000)};
  }
  RankParts(int own_rank, int ranks, std::shared_ptr<Store> shared)
      : rank(own_rank), world_size(ranks), store(std::move(shared)) {}

  CommunicatorOptions options() const {
    CommunicatorOptions made;
    made.rank = rank;
    made.world_size = world_size;
    return made;
  }
  std::unique_ptr<Communicator> join(const CommunicatorOptions& with) {
    return *Communicator::join(heap, store, with, patience());
  }
  std::unique_ptr<Communicator> join() { return join(options()); }

  int rank;
  int world_size;
  std::shared_ptr<Store> store;
  std::unique_ptr<Process> process = *Process::start(quick());
  RankHeap heap{*process, process->backends().activate(), {}};
};

// One rank that brings its own: what a user has before it joins.
struct BareRank {
  int rank = 0;
  int world_size = 1;
  std::shared_ptr<Store> store{};
};

// What a rank says in the end: nothing, when all went well.
using RankBody = std::function<std::string(RankParts& parts)>;
using BareBody = std::function<std::string(const BareRank& rank)>;

class Ranks {
 public:
  // Forks, and so must come before any thread of the test.
  Ranks(int world_size, const RankBody& body);
  Ranks(int world_size, const BareBody& body);

  // By rank, when all have ended; "killed" for one that a signal ended. `killed_last` is killed
  // when the others are done: it is stopped.
  std::vector<std::string> outcomes(int killed_last = -1);
  // The same, but it goes on when the others are done, and has its say.
  std::vector<std::string> outcomes_with_late(int stopped);
  // Names in the store that are left of what the ranks put there.
  std::vector<std::string> left_in_store() const;
  // Those of them that will still be there in three leases from now: the parting life of a group
  // that has failed.
  std::vector<std::string> left_in_store_after_parting() const;

 private:
  std::string outcome(int rank);
  std::vector<std::string> outcomes_but(int rank);

  TemporaryFolder folder_;
  TemporaryFolder said_;
  std::vector<std::unique_ptr<ChildProcess>> children_;
};

// For leaks: what a process has open, and what it has mapped of symmetric memory.
size_t open_fd_count();
size_t symmetric_mapping_count();

}  // namespace ashlar::symm
