// SPDX-License-Identifier: Apache-2.0
//
// Rows 20 and 22 of the acceptance checklist: a rank dies, or stands still, inside of an operation.
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "mp/lost_rank.h"

namespace ashlar::symm {
namespace {

// What those say that are left: one is in `act` meanwhile, one comes to it later.
std::vector<std::string> survivors_say(int signal, const GroupCall& act) {
  Ranks ranks(3, [&](const BareRank& rank) -> std::string {
    SymmetricRank own(rank, 4096);
    std::string said = lose_rank_in(act, {.signal = signal}, own);
    if (thrown_by([&] { own.group.leave(kPatience); }) != said) said += " [left otherwise]";
    return said;
  });
  std::vector<std::string> said = ranks.outcomes(signal == SIGSTOP ? 1 : -1);
  EXPECT_EQ(said[1], "killed");
  said.erase(said.begin() + 1);
  EXPECT_THAT(ranks.left_in_store_after_parting(), IsEmpty());
  return said;
}

// Brackets are what was wrong: another reason, or something left open or mapped.
const auto kNamesTheRank = Each(AllOf(HasSubstr("rank 1"), Not(HasSubstr("["))));

const GroupCall kWaitSignal = [](SymmetricRank& own) {
  own.handle.wait_signal((own.handle.rank() + 1) % 3, 0, kPatience);
};

TEST(SymmetricMemory, Row20PeerDeathFailsAllWaitersInABarrier) {
  EXPECT_THAT(survivors_say(SIGKILL, kBarrier), kNamesTheRank);
}

TEST(SymmetricMemory, Row20PeerDeathFailsAllWaitersInAnAllReduce) {
  EXPECT_THAT(survivors_say(SIGKILL, kAllReduce), kNamesTheRank);
}

TEST(SymmetricMemory, Row20PeerDeathFailsAllWaitersForASignal) {
  EXPECT_THAT(survivors_say(SIGKILL, kWaitSignal), kNamesTheRank);
}

TEST(SymmetricMemory, Row20ARankThatStandsStillInABarrierIsLostWithItsLease) {
  EXPECT_THAT(survivors_say(SIGSTOP, kBarrier), kNamesTheRank);
}

TEST(SymmetricMemory, Row20ARankThatStandsStillInAnAllReduceIsLostWithItsLease) {
  EXPECT_THAT(survivors_say(SIGSTOP, kAllReduce), kNamesTheRank);
}

TEST(SymmetricMemory, Row22AGroupThatIsDroppedFailsForTheOthersAndNothingIsLeft) {
  Ranks ranks(2, [](const BareRank& rank) -> std::string {
    SymmetricRank own(rank, 4096);
    if (rank.rank == 0) return "rank 0 goes";
    return thrown_by([&] { own.group.barrier(0, kPatience); });
  });
  EXPECT_THAT(ranks.outcomes(), Each(AllOf(HasSubstr("rank 0"), Not(HasSubstr("[")))));
  EXPECT_THAT(ranks.left_in_store_after_parting(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
