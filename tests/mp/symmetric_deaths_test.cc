// Rows 20 and 22 of the acceptance checklist: a rank dies, or stands still, inside of an operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "mp/symmetric_rank.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

using Act = std::function<void(SymmetricRank& own)>;

// Rank 1 gets the signal inside of `act`, where rank 0 is too. Rank 2 comes to it only after the
// death, so that nobody gets through.
std::vector<std::string> survivors_say(int signal, const Act& act) {
  Ranks ranks(3, [&](const BareRank& rank) -> std::string {
    SymmetricRank own(rank, 4096);
    std::thread blow;
    if (rank.rank == 1) {
      blow = std::thread([signal] {
        std::this_thread::sleep_for(milliseconds(100));
        ::kill(::getpid(), signal);
      });
    }
    while (rank.rank == 2 && own.group.failure().ok()) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    std::string said;
    try {
      act(own);
      said = "got through";
    } catch (const PeerError& lost) {
      said = lost.what();
    }
    // Every later call says the same.
    const std::string again = thrown_by([&] { own.handle.put_signal(0, 0, kPatience); });
    if (again != said) said += " [then: " + again + "]";
    if (thrown_by([&] { own.group.leave(kPatience); }) != said) said += " [left otherwise]";
    if (blow.joinable()) blow.join();
    return said;
  });
  std::vector<std::string> said = ranks.outcomes(signal == SIGSTOP ? 1 : -1);
  EXPECT_EQ(said[1], "killed");
  said.erase(said.begin() + 1);
  return said;
}

// Brackets are what was wrong: another reason, or something left open or mapped.
const auto kNamesTheRank = Each(AllOf(HasSubstr("rank 1"), Not(HasSubstr("["))));

const Act kBarrier = [](SymmetricRank& own) { own.group.barrier(3, kPatience); };
const Act kAllReduce = [](SymmetricRank& own) {
  own.handle.all_reduce(100, {}, {0, nullptr, kPatience});
};
const Act kWaitSignal = [](SymmetricRank& own) {
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
}

}  // namespace
}  // namespace ashlar::symm
