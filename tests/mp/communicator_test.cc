// SPDX-License-Identifier: Apache-2.0
//
// Communicators and rendezvous between processes: sharing, mismatches and failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "mp/harness/ranks.h"

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

constexpr size_t kSharedBytes = 100'000;

// Waits for all ranks with an allocation, which is collective; its memory is not used.
Status synchronize(Communicator& group) {
  return group.allocate_internal(64, long_deadline()).status();
}

// Every rank fills its buffer with rank + 1 and reads the buffers of all ranks.
std::string write_and_read(Communicator& group, const PeerHandle& handle) {
  const RankInfo& rank_info = group.rank_info();
  std::byte* own = *handle.at(rank_info.rank, 0, kSharedBytes);
  std::memset(own, rank_info.rank + 1, kSharedBytes);
  if (Status synchronized = synchronize(group); !synchronized.ok()) return synchronized.to_string();
  for (int rank = 0; rank < rank_info.world_size; ++rank) {
    const std::byte* from = *handle.at(rank, 0, kSharedBytes);
    for (size_t i = 0; i < kSharedBytes; i += 997) {
      if (from[i] != std::byte(rank + 1)) return text("rank ", rank, " has wrong contents");
    }
    for (size_t i = 0; i < handle.peers().pad_bytes(); ++i) {
      if (handle.peers().pad(rank)[i] != std::byte{0}) return "a pad is not zero";
    }
  }
  if (Status synchronized = synchronize(group); !synchronized.ok()) return synchronized.to_string();
  return {};
}

class SymmetricProcesses : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricProcesses, ::testing::Values(1, 2, 3, 4, 5, 8),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricProcesses, ShareMemoryWithoutLeaks) {
  RankProcesses ranks(GetParam(), [](RankContext& context) -> std::string {
    CommunicatorOptions options = context.options();
    options.pad_bytes = 1000;
    const std::unique_ptr<Communicator> group = context.join(options);
    if (group->pads()->pad(context.world_size - 1)[999] != std::byte{0}) return "no pad";
    std::byte* buffer = *context.heap.allocate(kSharedBytes, {});
    const Result<PeerHandle> handle = group->rendezvous(buffer, long_deadline());
    if (!handle.ok()) return handle.status().to_string();
    if (std::string wrong = write_and_read(*group, *handle); !wrong.empty()) return wrong;
    return group->leave(long_deadline()).message();
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
  EXPECT_THAT(ranks.store_keys(), IsEmpty());
}

TEST_P(SymmetricProcesses, KeepPeerMemoryAfterOwnerFreesIt) {
  RankProcesses ranks(GetParam(), [](RankContext& context) -> std::string {
    const std::unique_ptr<Communicator> group = context.join();
    std::byte* buffer = *context.heap.allocate(kSharedBytes, {});
    const Result<PeerHandle> handle = group->rendezvous(buffer, long_deadline());
    if (!handle.ok()) return handle.status().to_string();
    if (context.rank == 0 && !context.heap.free(buffer).ok()) return "not freed";
    if (std::string wrong = write_and_read(*group, *handle); !wrong.empty()) return wrong;
    return group->leave(long_deadline()).message();
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricProcesses, UseOneBlockInSeveralSubGroups) {
  RankProcesses ranks(4, [](RankContext& context) -> std::string {
    std::byte* buffer = *context.heap.allocate(kSharedBytes, {});
    // Two sub-groups with the same name but different members, then a sub-group that overlaps both,
    // then the world.
    const auto sub_group = [&](const std::string& name, std::vector<uint64_t> members) {
      CommunicatorOptions options;
      options.name = name;
      options.members = members;
      options.world_size = static_cast<int>(members.size());
      options.rank = static_cast<int>(std::find(members.begin(), members.end(), context.rank) -
                                      members.begin());
      return context.join(options);
    };
    const std::unique_ptr<Communicator> pair =
        context.rank < 2 ? sub_group("pair", {0, 1}) : sub_group("pair", {3, 2});
    const Result<PeerHandle> paired = pair->rendezvous(buffer, long_deadline());
    if (!paired.ok()) return paired.status().to_string();
    std::unique_ptr<Communicator> middle;
    if (context.rank == 1 || context.rank == 2) {
      middle = sub_group("middle", {1, 2});
      const Result<PeerHandle> synchronized = middle->rendezvous(buffer, long_deadline());
      if (!synchronized.ok()) return synchronized.status().to_string();
    }
    const std::unique_ptr<Communicator> world = context.join();
    const Result<PeerHandle> handle = world->rendezvous(buffer, long_deadline());
    if (!handle.ok()) return handle.status().to_string();
    if (std::string wrong = write_and_read(*world, *handle); !wrong.empty()) return wrong;
    const int partner = 1 - pair->rank_info().rank;
    const auto seen = static_cast<uint64_t>((*paired->at(partner, 5, 1))[0]);
    if (seen != pair->member(partner) + 1) return "wrong pair";
    if (middle != nullptr && !middle->leave(long_deadline()).ok()) return "middle";
    if (!pair->leave(long_deadline()).ok()) return "pair";
    return world->leave(long_deadline()).message();
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
  EXPECT_THAT(ranks.store_keys(), IsEmpty());
}

TEST(SymmetricProcesses, ReportSameErrorWhenSizesDiffer) {
  RankProcesses ranks(3, [](RankContext& context) -> std::string {
    const std::unique_ptr<Communicator> group = context.join();
    std::byte* wrong = *context.heap.allocate(context.rank == 1 ? 32 : 16, {{"wrong"}, {}});
    const Status refused = group->rendezvous(wrong, long_deadline()).status();
    std::byte* buffer = *context.heap.allocate(kSharedBytes, {});
    const Result<PeerHandle> handle = group->rendezvous(buffer, long_deadline());
    if (!handle.ok()) return handle.status().to_string();
    if (Status left = group->leave(long_deadline()); !left.ok()) return left.to_string();
    return refused.to_string();
  });
  EXPECT_THAT(
      ranks.results(),
      Each("invalid argument: the ranks of group world passed buffers of different sizes in "
           "bytes: rank 0: 16, rank 1: 32, rank 2: 16"));
  EXPECT_THAT(ranks.store_keys(), IsEmpty());
}

TEST(SymmetricProcesses, ReportErrorWhenAllocationOrderDiffers) {
  RankProcesses ranks(2, [](RankContext& context) -> std::string {
    const std::unique_ptr<Communicator> group = context.join();
    std::byte* first = *context.heap.allocate(64, {});
    std::byte* second = *context.heap.allocate(64, {});
    const Status refused =
        group->rendezvous(context.rank == 0 ? first : second, long_deadline()).status();
    if (Status left = group->leave(long_deadline()); !left.ok()) return left.to_string();
    return refused.to_string();
  });
  EXPECT_THAT(ranks.results(), Each(HasSubstr("rank 0: 0, rank 1: 1")));
}

TEST(SymmetricProcesses, ReportErrorWhenOneRankRunsOutOfDescriptors) {
  RankProcesses ranks(3, [](RankContext& context) -> std::string {
    CommunicatorOptions options = context.options();
    options.on_phase = [&](Phase phase) {
      if (phase != Phase::kMapping || context.rank != 1) return;
      const UniqueFd next(::dup(0));  // the lowest free descriptor
      const rlimit few{static_cast<rlim_t>(next.get()), 4096};
      ::setrlimit(RLIMIT_NOFILE, &few);
    };
    const std::unique_ptr<Communicator> group = context.join(options);
    std::byte* buffer = *context.heap.allocate(kSharedBytes, {});
    const Status refused = group->rendezvous(buffer, long_deadline()).status();
    const rlimit many{1024, 4096};
    ::setrlimit(RLIMIT_NOFILE, &many);
    if (symmetric_mapping_count() != 1) return "leaked mappings";
    return refused.message();
  });
  EXPECT_THAT(ranks.results(), Each(HasSubstr("rank 1")));
}

TEST(SymmetricProcesses, NameMissingRankAndReportSameErrorToIt) {
  RankProcesses ranks(3, [](RankContext& context) -> std::string {
    const std::unique_ptr<Communicator> group = context.join();
    std::byte* buffer = *context.heap.allocate(kSharedBytes, {});
    if (context.rank == 2) {  // enters only after the other ranks have timed out
      const Deadline end = long_deadline();
      while (!group->failure()->has_happened()) {
        if (end.has_passed()) return "the others do not give up";
        std::this_thread::sleep_for(milliseconds(5));
      }
      return group->rendezvous(buffer, long_deadline()).status().to_string();
    }
    // Ranks 0 and 1 enter at the same time, so that only rank 2 is missing at the deadline.
    if (!context.store->barrier("both", 2, kNoExpiry, long_deadline()).ok()) return "no barrier";
    return group->rendezvous(buffer, Deadline::after(seconds(1))).status().to_string();
  });
  EXPECT_THAT(ranks.results(), Each(HasSubstr("rank 2 of group world did not reach")));
}

TEST(SymmetricProcesses, FailWhenARankDropsItsGroup) {
  RankProcesses ranks(2, [](RankContext& context) -> std::string {
    std::unique_ptr<Communicator> group = context.join();
    if (context.rank == 0) {
      group.reset();
      return "gone";
    }
    return group->leave(long_deadline()).message();
  });
  EXPECT_THAT(ranks.results()[1],
              HasSubstr("rank 0 of group world destroyed its group without calling leave"));
}

TEST(SymmetricProcesses, JoinAgainAfterACrash) {
  RankProcesses ranks(2, [](RankContext& context) -> std::string {
    for (int round = 0; round < 3; ++round) {
      const std::unique_ptr<Communicator> group = context.join();
      if (round == 0) continue;  // drops the group as after a crash
      std::byte* buffer = *context.heap.allocate(kSharedBytes, {});
      const Result<PeerHandle> handle = group->rendezvous(buffer, long_deadline());
      if (!handle.ok()) return handle.status().to_string();
      if (Status left = group->leave(long_deadline()); !left.ok()) return left.to_string();
    }
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

struct PhaseFault {
  int signal = 0;
  Phase phase = Phase::kJoining;
  bool resumes = false;  // a stopped rank is resumed after the other ranks have exited
  std::string name{};
};

void PrintTo(const PhaseFault& fault, std::ostream* out) { *out << fault.name; }

std::vector<PhaseFault> all_faults() {
  const std::pair<Phase, const char*> phases[] = {{Phase::kJoining, "Joining"},
                                                  {Phase::kConfirming, "Confirming"},
                                                  {Phase::kConnecting, "Connecting"},
                                                  {Phase::kExchangingRecords, "ExchangingRecords"},
                                                  {Phase::kSendingHandles, "SendingHandles"},
                                                  {Phase::kMapping, "Mapping"},
                                                  {Phase::kAgreeing, "Agreeing"}};
  std::vector<PhaseFault> faults;
  for (const auto& [phase, name] : phases) {
    faults.push_back({SIGKILL, phase, false, text("KilledWhile", name)});
    faults.push_back({SIGSTOP, phase, false, text("StoppedWhile", name)});
    faults.push_back({SIGSTOP, phase, true, text("StoppedForAWhileWhile", name)});
  }
  return faults;
}

class RankFailures : public ::testing::TestWithParam<PhaseFault> {};

INSTANTIATE_TEST_SUITE_P(Phases, RankFailures, ::testing::ValuesIn(all_faults()),
                         [](const auto& each) { return each.param.name; });

TEST_P(RankFailures, SurvivorsNameVictimBeforeDeadline) {
  const PhaseFault fault = GetParam();
  RankProcesses ranks(3, [&](RankContext& context) -> std::string {
    CommunicatorOptions options = context.options();
    options.on_phase = [&](Phase phase) {
      if (context.rank != 1 || phase != fault.phase) return;
      // `erase` waits for writes of this process's other threads. If the process stopped during a
      // write, the other ranks would block on the store's lock and report the lock instead of the
      // lost rank.
      if (fault.signal == SIGSTOP) (void)context.store->erase("absent", long_deadline()).ok();
      ::raise(fault.signal);
    };
    // The deadline is short if the victim fails before ranks have connected, because then only the
    // deadline reveals a missing rank. The ranks start together, so that only the victim can be
    // missing at the deadline.
    if (!context.store->barrier("start", 3, kNoExpiry, long_deadline()).ok()) return "no barrier";
    const bool is_before_connecting = fault.phase == Phase::kJoining;
    const Deadline deadline = Deadline::after(is_before_connecting ? seconds(1) : seconds(20));
    const auto late = [&] {
      return deadline.has_passed() && !is_before_connecting ? " [late]" : "";
    };
    Result<std::unique_ptr<Communicator>> group =
        Communicator::join(context.heap, context.store, options, deadline);
    if (!group.ok()) return group.status().to_string() + late();
    std::byte* buffer = *context.heap.allocate(kSharedBytes, {});
    const Status lost = (*group)->rendezvous(buffer, deadline).status();
    if (lost.ok()) return "no failure";
    if (!(*group)->failure()->has_happened()) return "the group did not fail";
    const Status left = (*group)->leave(deadline);
    if (left.message() != lost.message()) return "different reason: " + left.message();
    return lost.to_string() + late();
  });
  std::vector<std::string> results =
      fault.resumes ? ranks.results_resuming(1) : ranks.results(fault.signal == SIGSTOP ? 1 : -1);
  const std::string victim_result = results[1];
  results.erase(results.begin() + 1);
  EXPECT_THAT(results, Each(HasSubstr("rank 1")));
  EXPECT_THAT(results, Each(Not(HasSubstr("["))));
  // A resumed rank receives the failure from the other ranks, or times out if they have exited.
  if (fault.resumes) {
    EXPECT_THAT(victim_result, AnyOf(StartsWith("peer lost: rank"), StartsWith("timeout: rank")));
  } else {
    EXPECT_EQ(victim_result, "killed");
  }
  EXPECT_THAT(ranks.store_keys_after_three_leases(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
