// SPDX-License-Identifier: Apache-2.0
//
// Runs the ranks of a symmetric-memory group as processes. Each rank runs a function and reports a
// result string.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mp/child_process.h"
#include "symm/rendezvous/communicator.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {

// The inputs of a rank that joins a group through the internal classes.
struct RankContext {
  static ProcessOptions short_lease_options() {
    return {std::chrono::milliseconds(100), std::chrono::milliseconds(2000)};
  }
  RankContext(int own_rank, int ranks, std::shared_ptr<Store> shared)
      : rank(own_rank), world_size(ranks), store(std::move(shared)) {}

  CommunicatorOptions options() const {
    CommunicatorOptions made;
    made.rank = rank;
    made.world_size = world_size;
    return made;
  }
  std::unique_ptr<Communicator> join(const CommunicatorOptions& with) {
    return *Communicator::join(heap, store, with, long_deadline());
  }
  std::unique_ptr<Communicator> join() { return join(options()); }

  int rank;
  int world_size;
  std::shared_ptr<Store> store;
  std::unique_ptr<Process> process = *Process::start(short_lease_options());
  RankHeap heap{*process, process->backends().activate(), {}};
};

// The inputs of a rank that joins a group through the public API.
struct RankSpec {
  int rank = 0;
  int world_size = 1;
  std::shared_ptr<Store> store{};
};

// The function that each rank runs: RankBody uses the internal classes, RankMain the public API. It
// returns the rank's result, which the test checks: usually an error description, or an empty
// string on success.
using RankBody = std::function<std::string(RankContext& context)>;
using RankMain = std::function<std::string(const RankSpec& rank)>;

class RankProcesses {
 public:
  // Forks the ranks. REQUIRES: the test has not started a thread.
  RankProcesses(int world_size, const RankBody& body);
  RankProcesses(int world_size, const RankMain& body);

  // Waits for all ranks and returns their results, indexed by rank. The result is "killed" if a
  // signal ended the rank. `killed_last` is a stopped rank that is killed after the other ranks
  // have exited; -1: none.
  std::vector<std::string> results(int killed_last = -1);
  // Like `results`, but resumes the stopped rank after the other ranks have exited, and waits for
  // it.
  std::vector<std::string> results_resuming(int stopped);
  // Returns the keys that the ranks left in the store.
  std::vector<std::string> store_keys() const;
  // Returns the keys that will still exist after three leases. When the ranks of a failed group
  // leave, they limit the lifetime of its keys to three leases, so no key should be left.
  std::vector<std::string> store_keys_after_three_leases() const;

 private:
  std::string result_of(int rank);
  std::vector<std::string> results_except(int rank);

  TemporaryFolder folder_{TemporaryFolder::Medium::kMemory};
  TemporaryFolder messages_;
  std::vector<std::unique_ptr<ChildProcess>> children_;
};

// These functions return the numbers of open descriptors and of mappings of symmetric memory in
// this process, for leak checks.
size_t open_fd_count();
size_t symmetric_mapping_count();

}  // namespace ashlar::symm
