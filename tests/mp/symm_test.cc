// SPDX-License-Identifier: Apache-2.0
//
// Groups and rendezvous between real processes: what they share, how they disagree, how they die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "mp/ranks.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr size_t kBytes = 100'000;

// A collective act of which nothing is left.
Status meet(Communicator& group) { return group.allocate_internal(64, patience()).status(); }

// Every rank writes its number everywhere in its buffer, and then reads all of the others'.
std::string write_and_read(Communicator& group, const PeerHandle& handle) {
  const RankInfo& rank_info = group.rank_info();
  std::byte* own = *handle.at(rank_info.rank, 0, kBytes);
  std::memset(own, rank_info.rank + 1, kBytes);
  if (Status met = meet(group); !met.ok()) return met.to_string();
  for (int rank = 0; rank < rank_info.world_size; ++rank) {
    const std::byte* from = *handle.at(rank, 0, kBytes);
    for (size_t i = 0; i < kBytes; i += 997) {
      if (from[i] != std::byte(rank + 1)) return text("rank ", rank, " is not where it should be");
    }
    for (size_t i = 0; i < handle.peers().pad_bytes(); ++i) {
      if (handle.peers().pad(rank)[i] != std::byte{0}) return "a pad is not zero";
    }
  }
  if (Status met = meet(group); !met.ok()) return met.to_string();
  return {};
}

class SymmetricProcesses : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricProcesses, ::testing::Values(1, 2, 3, 4, 5, 8),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricProcesses, ShareMemoryAndLeaveNothingBehind) {
  Ranks ranks(GetParam(), [](RankParts& parts) -> std::string {
    CommunicatorOptions options = parts.options();
    options.pad_bytes = 1000;
    const std::unique_ptr<Communicator> group = parts.join(options);
    if (group->pads()->pad(parts.world_size - 1)[999] != std::byte{0}) return "no pad";
    std::byte* buffer = *parts.heap.allocate(kBytes, {});
    const Result<PeerHandle> handle = group->rendezvous(buffer, patience());
    if (!handle.ok()) return handle.status().to_string();
    if (std::string wrong = write_and_read(*group, *handle); !wrong.empty()) return wrong;
    return group->leave(patience()).message();
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
  EXPECT_THAT(ranks.left_in_store(), IsEmpty());
}

TEST_P(SymmetricProcesses, KeepAPeersMemoryWhenItsOwnerFreesItFirst) {
  Ranks ranks(GetParam(), [](RankParts& parts) -> std::string {
    const std::unique_ptr<Communicator> group = parts.join();
    std::byte* buffer = *parts.heap.allocate(kBytes, {});
    const Result<PeerHandle> handle = group->rendezvous(buffer, patience());
    if (!handle.ok()) return handle.status().to_string();
    if (parts.rank == 0 && !parts.heap.free(buffer).ok()) return "not freed";
    if (std::string wrong = write_and_read(*group, *handle); !wrong.empty()) return wrong;
    return group->leave(patience()).message();
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricProcesses, UseOneBlockInSubGroupsInAnyOrder) {
  Ranks ranks(4, [](RankParts& parts) -> std::string {
    std::byte* buffer = *parts.heap.allocate(kBytes, {});
    // Two sub-groups of one name and other members, then one that overlaps both, then the world.
    const auto sub_group = [&](const std::string& name, std::vector<uint64_t> members) {
      CommunicatorOptions options;
      options.name = name;
      options.members = members;
      options.world_size = static_cast<int>(members.size());
      options.rank =
          static_cast<int>(std::find(members.begin(), members.end(), parts.rank) - members.begin());
      return parts.join(options);
    };
    const std::unique_ptr<Communicator> pair =
        parts.rank < 2 ? sub_group("pair", {0, 1}) : sub_group("pair", {3, 2});
    const Result<PeerHandle> paired = pair->rendezvous(buffer, patience());
    if (!paired.ok()) return paired.status().to_string();
    std::unique_ptr<Communicator> middle;
    if (parts.rank == 1 || parts.rank == 2) {
      middle = sub_group("middle", {1, 2});
      const Result<PeerHandle> met = middle->rendezvous(buffer, patience());
      if (!met.ok()) return met.status().to_string();
    }
    const std::unique_ptr<Communicator> world = parts.join();
    const Result<PeerHandle> handle = world->rendezvous(buffer, patience());
    if (!handle.ok()) return handle.status().to_string();
    if (std::string wrong = write_and_read(*world, *handle); !wrong.empty()) return wrong;
    const int partner = 1 - pair->rank_info().rank;
    const auto seen = static_cast<uint64_t>((*paired->at(partner, 5, 1))[0]);
    if (seen != pair->member(partner) + 1) return "the pair is another one";
    if (middle != nullptr && !middle->leave(patience()).ok()) return "middle";
    if (!pair->leave(patience()).ok()) return "pair";
    return world->leave(patience()).message();
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
  EXPECT_THAT(ranks.left_in_store(), IsEmpty());
}

TEST(SymmetricProcesses, AllFailWithTheSameSentenceWhereSizesDifferAndGoOn) {
  Ranks ranks(3, [](RankParts& parts) -> std::string {
    const std::unique_ptr<Communicator> group = parts.join();
    std::byte* wrong = *parts.heap.allocate(parts.rank == 1 ? 32 : 16, {{"wrong"}, {}});
    const Status refused = group->rendezvous(wrong, patience()).status();
    std::byte* buffer = *parts.heap.allocate(kBytes, {});
    const Result<PeerHandle> handle = group->rendezvous(buffer, patience());
    if (!handle.ok()) return handle.status().to_string();
    if (Status left = group->leave(patience()); !left.ok()) return left.to_string();
    return refused.to_string();
  });
  EXPECT_THAT(
      ranks.outcomes(),
      Each("invalid argument: the ranks of group world passed buffers of different sizes in "
           "bytes: rank 0: 16, rank 1: 32, rank 2: 16"));
  EXPECT_THAT(ranks.left_in_store(), IsEmpty());
}

TEST(SymmetricProcesses, AllFailWhereBlocksWereAllocatedInAnotherOrder) {
  Ranks ranks(2, [](RankParts& parts) -> std::string {
    const std::unique_ptr<Communicator> group = parts.join();
    std::byte* first = *parts.heap.allocate(64, {});
    std::byte* second = *parts.heap.allocate(64, {});
    const Status refused = group->rendezvous(parts.rank == 0 ? first : second, patience()).status();
    if (Status left = group->leave(patience()); !left.ok()) return left.to_string();
    return refused.to_string();
  });
  EXPECT_THAT(ranks.outcomes(), Each(HasSubstr("rank 0: 0, rank 1: 1")));
}

TEST(SymmetricProcesses, AllFailWhereOneHasNoDescriptorLeft) {
  Ranks ranks(3, [](RankParts& parts) -> std::string {
    CommunicatorOptions options = parts.options();
    options.on_phase = [&](Phase phase) {
      if (phase != Phase::kMapping || parts.rank != 1) return;
      const UniqueFd next(::dup(0));  // the lowest that is free
      const rlimit few{static_cast<rlim_t>(next.get()), 4096};
      ::setrlimit(RLIMIT_NOFILE, &few);
    };
    const std::unique_ptr<Communicator> group = parts.join(options);
    std::byte* buffer = *parts.heap.allocate(kBytes, {});
    const Status refused = group->rendezvous(buffer, patience()).status();
    const rlimit many{1024, 4096};
    ::setrlimit(RLIMIT_NOFILE, &many);
    if (symmetric_mapping_count() != 1) return "something stayed mapped";
    return refused.message();
  });
  EXPECT_THAT(ranks.outcomes(), Each(HasSubstr("rank 1")));
}

TEST(SymmetricProcesses, ARankThatDoesNotComeIsNamedAndLearnsTheSameWhenItDoes) {
  Ranks ranks(3, [](RankParts& parts) -> std::string {
    const std::unique_ptr<Communicator> group = parts.join();
    std::byte* buffer = *parts.heap.allocate(kBytes, {});
    if (parts.rank == 2) {  // until the others have given up
      const Deadline end = patience();
      while (!group->failure()->has_happened()) {
        if (end.has_passed()) return "the others wait for ever";
        std::this_thread::sleep_for(milliseconds(5));
      }
      return group->rendezvous(buffer, patience()).status().to_string();
    }
    return group->rendezvous(buffer, Deadline::after(milliseconds(300))).status().to_string();
  });
  EXPECT_THAT(ranks.outcomes(), Each(HasSubstr("rank 2 of group world did not come")));
}

TEST(SymmetricProcesses, WhoGoesAwayWithoutLeavingFailsTheGroupForTheOthers) {
  Ranks ranks(2, [](RankParts& parts) -> std::string {
    std::unique_ptr<Communicator> group = parts.join();
    if (parts.rank == 0) {
      group.reset();
      return "gone";
    }
    return group->leave(patience()).message();
  });
  EXPECT_THAT(ranks.outcomes()[1],
              HasSubstr("rank 0 of group world destroyed its group without calling leave"));
}

TEST(SymmetricProcesses, AGroupCanBeFormedAgainAfterACrash) {
  Ranks ranks(2, [](RankParts& parts) -> std::string {
    for (int round = 0; round < 3; ++round) {
      const std::unique_ptr<Communicator> group = parts.join();
      if (round == 0) continue;  // it ends as after a crash
      std::byte* buffer = *parts.heap.allocate(kBytes, {});
      const Result<PeerHandle> handle = group->rendezvous(buffer, patience());
      if (!handle.ok()) return handle.status().to_string();
      if (Status left = group->leave(patience()); !left.ok()) return left.to_string();
    }
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// --- deaths -------------------------------------------------------------------------------------

struct Blow {
  int signal = 0;
  Phase phase = Phase::kJoining;
  bool goes_on = false;  // when the others are done: it was only stopped
  std::string name{};
};

void PrintTo(const Blow& blow, std::ostream* out) { *out << blow.name; }

std::vector<Blow> all_blows() {
  const std::pair<Phase, const char*> phases[] = {
      {Phase::kJoining, "Joining"},         {Phase::kMeeting, "Meeting"},
      {Phase::kLinking, "Linking"},         {Phase::kRecording, "Recording"},
      {Phase::kHandingOver, "HandingOver"}, {Phase::kMapping, "Mapping"},
      {Phase::kAgreeing, "Agreeing"}};
  std::vector<Blow> blows;
  for (const auto& [phase, name] : phases) {
    blows.push_back({SIGKILL, phase, false, text("KilledWhile", name)});
    blows.push_back({SIGSTOP, phase, false, text("StoppedWhile", name)});
    blows.push_back({SIGSTOP, phase, true, text("StoppedForAWhileWhile", name)});
  }
  return blows;
}

class SymmetricDeaths : public ::testing::TestWithParam<Blow> {};

INSTANTIATE_TEST_SUITE_P(Phases, SymmetricDeaths, ::testing::ValuesIn(all_blows()),
                         [](const auto& each) { return each.param.name; });

TEST_P(SymmetricDeaths, AllSurvivorsNameTheRankWithinTheirDeadlineAndNothingIsLeft) {
  const Blow blow = GetParam();
  Ranks ranks(3, [&](RankParts& parts) -> std::string {
    CommunicatorOptions options = parts.options();
    options.on_phase = [&](Phase phase) {
      if (parts.rank != 1 || phase != blow.phase) return;
      // Not while another thread of ours writes: then all wait for the lock, and say that.
      if (blow.signal == SIGSTOP) (void)parts.store->erase("nobody", patience()).ok();
      ::raise(blow.signal);
    };
    // Before anybody has met, only the deadline tells that somebody is missing.
    const bool is_alone = blow.phase == Phase::kJoining;
    const Deadline deadline = Deadline::after(is_alone ? seconds(1) : seconds(20));
    const auto late = [&] { return deadline.has_passed() && !is_alone ? " [late]" : ""; };
    Result<std::unique_ptr<Communicator>> group =
        Communicator::join(parts.heap, parts.store, options, deadline);
    if (!group.ok()) return group.status().to_string() + late();
    std::byte* buffer = *parts.heap.allocate(kBytes, {});
    const Status lost = (*group)->rendezvous(buffer, deadline).status();
    if (lost.ok()) return "all is well";
    if (!(*group)->failure()->has_happened()) return "the group did not fail";
    const Status left = (*group)->leave(deadline);
    if (left.message() != lost.message()) return "another reason: " + left.message();
    return lost.to_string() + late();
  });
  std::vector<std::string> said =
      blow.goes_on ? ranks.outcomes_with_late(1) : ranks.outcomes(blow.signal == SIGSTOP ? 1 : -1);
  const std::string of_the_rank = said[1];
  said.erase(said.begin() + 1);
  EXPECT_THAT(said, Each(HasSubstr("rank 1")));
  EXPECT_THAT(said, Each(Not(HasSubstr("["))));
  // One that goes on learns it from the others, or finds them gone.
  if (blow.goes_on) {
    EXPECT_THAT(of_the_rank, AnyOf(StartsWith("peer lost: rank"), StartsWith("timeout: rank")));
  } else {
    EXPECT_EQ(of_the_rank, "killed");
  }
  EXPECT_THAT(ranks.left_in_store_after_parting(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
