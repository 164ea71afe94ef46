// SPDX-License-Identifier: Apache-2.0
//
// Groups whose ranks are threads of one process that say they are on different machines: what they
// reach through UCX, and how it ends.

#include <thread>
#include <vector>

#include "ashlar/ucx_transport.h"
#include "mp/symmetric_program.h"
#include "mp/ucx_ranks.h"

namespace ashlar::symm {
namespace {

struct Machines {
  int world_size = 2;
  int count = 2;  // rank r is on machine r % count
  bool has_transport = true;
  std::vector<int> sizes{};  // instead: the first ranks on the first machine, and so on

  int of(int rank) const {
    if (sizes.empty()) return rank % count;
    int machine = 0;
    for (int left = rank; left >= sizes[static_cast<size_t>(machine)]; ++machine) {
      left -= sizes[static_cast<size_t>(machine)];
    }
    return machine;
  }
};

// What each rank said in the end, or threw.
std::vector<std::string> on_machines(const Machines& machines, const SymmetricBody& body) {
  std::vector<std::string> said(static_cast<size_t>(machines.world_size));
  const std::shared_ptr<Store> store = make_memory_store();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < machines.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      const BareRank bare{rank, machines.world_size, store};
      try {
        HeapOptions heap = SymmetricRank::heap_options();
        heap.lease = std::chrono::seconds(30);  // the machine may be busy, and who is lost is told
        heap.machine = text("machine", machines.of(rank));
        GroupOptions group = SymmetricRank::group_options(bare);
        if (machines.has_transport) {
          group.transport = must(open_ucx_transport({.transports = "tcp", .devices = "lo"}));
        }
        SymmetricRank own(bare, kProgramBytes, heap, group);
        said[static_cast<size_t>(rank)] = body(own);
        if (said[static_cast<size_t>(rank)].empty()) own.group.leave(kPatience);
      } catch (const std::exception& thrown) {
        said[static_cast<size_t>(rank)] = thrown.what();
      }
    });
  }
  for (std::thread& each : threads) each.join();
  return said;
}

class RemoteGroupConcurrency : public ::testing::TestWithParam<Machines> {};

INSTANTIATE_TEST_SUITE_P(Machines, RemoteGroupConcurrency,
                         ::testing::Values(Machines{2, 2}, Machines{3, 2}, Machines{3, 3},
                                           Machines{4, 2}),
                         [](const auto& tested) {
                           return text(tested.param.world_size, "RanksOn", tested.param.count);
                         });

TEST_P(RemoteGroupConcurrency, TheSameProgramPassesAsOnOneMachine) {
  EXPECT_THAT(on_machines(GetParam(), run_program), Each(IsEmpty()));
}

// Six, three and one: machines with many, few and no ranks for which another speaks.
const Machines kUneven{.world_size = 10, .sizes = {6, 3, 1}};

// What every rank wrote before a barrier, its neighbours read after it, on whichever machine.
TEST(RemoteGroupConcurrency, Row08BarriersAcrossThreeUnevenMachinesKeepAllInStep) {
  const auto said = on_machines(kUneven, [](SymmetricRank& own) -> std::string {
    const Handle& handle = own.handle;
    const int ranks = handle.world_size();
    for (int round = 1; round <= 20; ++round) {
      own.buffer.as<int>()[round % 2] = round;
      handle.barrier(round % 3, kPatience);
      for (const int step : {1, ranks / 2, ranks - 1}) {
        int seen = 0;
        handle.get((handle.rank() + step) % ranks, std::as_writable_bytes(std::span(&seen, 1)),
                   static_cast<int64_t>(sizeof(int)) * (round % 2));
        if (seen != round) return text("passed too early: ", seen, " instead of ", round);
      }
    }
    handle.barrier(0, kPatience);
    own.buffer.as<int>()[0] = handle.rank();
    handle.all_reduce(1, {ElementType::kI32, ReduceOp::kSum}, {.timeout = kPatience});
    return own.buffer.as<int>()[0] == ranks * (ranks - 1) / 2 ? "" : "another sum";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

// Rank 7 is one for which rank 6 speaks.
TEST(RemoteGroupConcurrency, ABarrierAcrossThreeUnevenMachinesNamesWhoIsLate) {
  const auto said = on_machines(kUneven, [](SymmetricRank& own) -> std::string {
    std::string late = "for rank 7;";
    if (own.group.rank() != 7) {
      late = thrown_by([&] { own.group.barrier(5, milliseconds(500)); });
    }
    own.group.barrier(0, kPatience);
    own.group.barrier(5, kPatience);
    own.group.leave(kPatience);
    return late;
  });
  EXPECT_THAT(said, Each(HasSubstr("for rank 7;")));
}

TEST(RemoteGroupConcurrency, WithoutATransportAllRanksSayWhoIsOnAnotherMachine) {
  const auto said = on_machines({.world_size = 3, .has_transport = false}, run_program);
  EXPECT_THAT(said,
              Each(AllOf(HasSubstr("invalid argument: rank 1 of group world is on another machine "
                                   "than rank 0, and ranks 0, 1 and 2 have no transport"),
                         HasSubstr("set one in the group options"))));
}

TEST(RemoteGroupConcurrency, ASubGroupOnOneMachineNeedsNoOther) {
  const auto said = on_machines({.world_size = 4}, [](SymmetricRank& own) -> std::string {
    const int side = own.group.rank() % 2;
    Group near = own.group.sub_group({.name = text("near", side),
                                      .ranks = {side, side + 2},
                                      .measure_thresholds = false,
                                      .timeout = kPatience});
    const Handle handle = near.rendezvous(own.buffer, kPatience);
    handle.view<int>(1 - handle.rank(), 1)[0] = 7 + side;
    near.barrier(0, kPatience);
    near.leave(kPatience);
    return own.buffer.as<int>()[0] == 7 + side ? "" : "not written";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, ABarrierThatTimesOutNamesTheRankAndIsFinishedLater) {
  // Rank 3 is on the machine of rank 1, which speaks for it.
  const auto said = on_machines({.world_size = 4}, [](SymmetricRank& own) -> std::string {
    std::string late = "rank 3";
    if (own.group.rank() != 3) {
      late = thrown_by([&] { own.group.barrier(5, milliseconds(300)); });
    }
    own.group.barrier(0, kPatience);
    own.group.barrier(5, kPatience);
    own.group.barrier(5, kPatience);
    own.group.leave(kPatience);
    return late;
  });
  EXPECT_THAT(said, Each(AllOf(HasSubstr("rank 3"), Not(HasSubstr("ranks")))));
}

TEST(RemoteGroupConcurrency, AMachineThatIsLateIsNamedRankByRankAlsoAfterBarriersThatTimedOut) {
  const auto said = on_machines({.world_size = 4}, [](SymmetricRank& own) -> std::string {
    const auto is_on = [&](int side) { return own.group.rank() % 2 == side; };
    std::string late;
    for (int side = 0; side < 2; ++side) {
      const std::string expected = text("for ranks ", side, " and ", side + 2, ";");
      for (int again = 0; again < 2 && !is_on(side); ++again) {
        late = thrown_by([&] { own.group.barrier(5, milliseconds(300)); });
        if (late.find(expected) == std::string::npos) return late;
      }
      own.group.barrier(0, kPatience);
      own.group.barrier(5, kPatience);
    }
    return {};
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, ASecondSignalWaitsUntilTheFirstWasTaken) {
  const auto said = on_machines({}, [](SymmetricRank& own) -> std::string {
    const Handle& handle = own.handle;
    if (handle.rank() == 0) {
      handle.put_signal(1, 4, kPatience);
      const std::string full = thrown_by([&] { handle.put_signal(1, 4, milliseconds(50)); });
      if (full.find("to signal rank 1 on channel 4") == std::string::npos) return full;
      handle.barrier(0, kPatience);
      handle.put_signal(1, 4, kPatience);  // once the first is taken
      handle.barrier(0, kPatience);
      return {};
    }
    handle.barrier(0, kPatience);
    handle.wait_signal(0, 4, kPatience);
    handle.wait_signal(0, 4, kPatience);
    handle.barrier(0, kPatience);
    const std::string empty = thrown_by([&] { handle.wait_signal(0, 4, milliseconds(1)); });
    return empty.find("timeout") == std::string::npos ? "a third signal" : "";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, ACollectiveThatTimesOutIsFinishedByCallingItAgain) {
  const auto said = on_machines({.world_size = 3}, [](SymmetricRank& own) -> std::string {
    const Reduction sum{ElementType::kI32, ReduceOp::kSum};
    own.buffer.as<int>()[0] = own.handle.rank() + 1;
    const auto reduce = [&](milliseconds timeout) {
      own.handle.two_shot_all_reduce(1, sum, {0, nullptr, timeout});
    };
    if (own.handle.rank() != 1) {
      const std::string late = thrown_by([&] { reduce(milliseconds(100)); });
      if (late.find("rank 1") == std::string::npos) return late;
    }
    own.group.barrier(0, kPatience);
    reduce(kPatience);
    return own.buffer.as<int>()[0] == 6 ? "" : "another sum";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, RanksThatCallDifferentThingsAllFindOutAndGoOn) {
  const auto said = on_machines({.world_size = 4}, [](SymmetricRank& own) -> std::string {
    const Reduction sum{ElementType::kI32, ReduceOp::kSum};
    const int64_t count = own.handle.rank() == 2 ? 5 : 4;
    const std::string refused = thrown_by([&] {
      own.handle.one_shot_all_reduce(count, sum, {0, nullptr, kPatience});
    });
    if (refused.find("rank 2") == std::string::npos) return refused;
    own.buffer.as<int>()[0] = 2;
    own.handle.all_reduce(1, sum, {0, nullptr, kPatience});
    return own.buffer.as<int>()[0] == 8 ? "" : "another sum";
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, AGroupThatIsDroppedFailsForTheOthers) {
  const auto said = on_machines({.world_size = 3}, [](SymmetricRank& own) -> std::string {
    if (own.group.rank() == 1) return "rank 1 goes";
    return thrown_by([&] { own.group.barrier(0, kPatience); });
  });
  EXPECT_THAT(said, Each(HasSubstr("rank 1")));
}

TEST(RemoteGroupConcurrency, WhatItsOwnerHasGivenUpIsRefused) {
  const auto said = on_machines({}, [](SymmetricRank& own) -> std::string {
    Buffer lent = own.heap.allocate(64);
    std::optional<Handle> handle = own.group.rendezvous(lent, kPatience);
    if (own.group.rank() == 1) {
      handle.reset();
      lent.reset();
    }
    own.group.barrier(0, kPatience);
    std::string refused;
    if (own.group.rank() == 0) {
      const std::byte sent[4] = {};
      refused = thrown_by([&] { handle->put(1, sent); });
      if (refused.find("invalid argument: rank 1 of group world does not share") == 0)
        refused.clear();
    }
    own.group.barrier(0, kPatience);
    return refused;
  });
  EXPECT_THAT(said, Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
