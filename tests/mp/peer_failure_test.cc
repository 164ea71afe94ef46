// SPDX-License-Identifier: Apache-2.0
//
// A rank is killed or stopped inside an operation, or drops its group.
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "mp/harness/rank_failure.h"

namespace ashlar::symm {
namespace {

// Returns the results of the two survivors: one is inside `operation` when the failure happens, and
// the other calls it later.
std::vector<std::string> survivor_results(int signal, const GroupCall& operation) {
  RankProcesses ranks(3, [&](const RankSpec& rank) -> std::string {
    SymmetricRank own(rank, 4096);
    std::string message = run_with_rank_failure(operation, {.signal = signal}, own);
    if (error_message([&] { own.group.leave(kTestTimeout); }) != message)
      message += " [leave failed differently]";
    return message;
  });
  std::vector<std::string> results = ranks.results(signal == SIGSTOP ? 1 : -1);
  EXPECT_EQ(results[1], "killed");
  results.erase(results.begin() + 1);
  EXPECT_THAT(ranks.store_keys_after_three_leases(), IsEmpty());
  return results;
}

// A result has brackets if the rank failed for another reason, or leaked descriptors or mappings.
const auto kNamesVictim = Each(AllOf(HasSubstr("rank 1"), Not(HasSubstr("["))));

const GroupCall kWaitSignal = [](SymmetricRank& own) {
  own.handle.wait_signal((own.handle.rank() + 1) % 3, 0, kTestTimeout);
};

TEST(SymmetricMemory, PeerDeathFailsBarrier) {
  EXPECT_THAT(survivor_results(SIGKILL, kBarrier), kNamesVictim);
}

TEST(SymmetricMemory, PeerDeathFailsAllReduce) {
  EXPECT_THAT(survivor_results(SIGKILL, kAllReduce), kNamesVictim);
}

TEST(SymmetricMemory, PeerDeathFailsSignalWait) {
  EXPECT_THAT(survivor_results(SIGKILL, kWaitSignal), kNamesVictim);
}

TEST(SymmetricMemory, StoppedPeerFailsBarrierAfterItsLease) {
  EXPECT_THAT(survivor_results(SIGSTOP, kBarrier), kNamesVictim);
}

TEST(SymmetricMemory, StoppedPeerFailsAllReduceAfterItsLease) {
  EXPECT_THAT(survivor_results(SIGSTOP, kAllReduce), kNamesVictim);
}

TEST(SymmetricMemory, DroppedGroupFailsForPeersWithoutLeaks) {
  RankProcesses ranks(2, [](const RankSpec& rank) -> std::string {
    SymmetricRank own(rank, 4096);
    if (rank.rank == 0) return "rank 0 drops its group";
    return error_message([&] { own.group.barrier(0, kTestTimeout); });
  });
  EXPECT_THAT(ranks.results(), Each(AllOf(HasSubstr("rank 0"), Not(HasSubstr("[")))));
  EXPECT_THAT(ranks.store_keys_after_three_leases(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
