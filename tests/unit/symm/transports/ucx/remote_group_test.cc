// SPDX-License-Identifier: Apache-2.0
//
// Tests groups whose ranks are threads of one process with different machine names, which
// communicate over UCX.

#include <thread>
#include <vector>

#include "ashlar/ucx_transport.h"
#include "mp/harness/symmetric_program.h"
#include "mp/harness/ucx_ranks.h"
#include "unit/symm/transports/ucx/listening_addresses.h"

namespace ashlar::symm {
namespace {

struct Machines {
  int world_size = 2;
  int count = 2;  // number of machines; rank r is on machine r % count
  bool has_transport = true;
  std::string devices = "lo";  // the devices of the transport; empty: all
  std::vector<int> sizes{};    // overrides `count`: numbers of consecutive ranks per machine

  int machine_of(int rank) const {
    if (sizes.empty()) return rank % count;
    int machine = 0;
    for (int left = rank; left >= sizes[static_cast<size_t>(machine)]; ++machine) {
      left -= sizes[static_cast<size_t>(machine)];
    }
    return machine;
  }
};

// Runs each rank on a thread. Returns the results of the ranks: the result of `body`, or the
// message of an exception.
std::vector<std::string> on_machines(const Machines& machines, const SymmetricBody& body) {
  std::vector<std::string> results(static_cast<size_t>(machines.world_size));
  const std::shared_ptr<Store> store = make_memory_store();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < machines.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      const RankSpec spec{rank, machines.world_size, store};
      try {
        HeapOptions heap = SymmetricRank::heap_options();
        // The lease is long, so that only connections detect failures.
        heap.lease = std::chrono::seconds(30);
        heap.machine = text("machine", machines.machine_of(rank));
        GroupOptions group = SymmetricRank::group_options(spec);
        if (machines.has_transport) {
          group.transport =
              check_ok(try_open_ucx_transport({.transports = "tcp", .devices = machines.devices}));
        }
        SymmetricRank own(spec, kProgramBytes, heap, group);
        results[static_cast<size_t>(rank)] = body(own);
        if (results[static_cast<size_t>(rank)].empty()) own.group.leave(kTestTimeout);
      } catch (const std::exception& thrown) {
        results[static_cast<size_t>(rank)] = thrown.what();
      }
    });
  }
  for (std::thread& each : threads) each.join();
  return results;
}

class RemoteGroupConcurrency : public ::testing::TestWithParam<Machines> {};

INSTANTIATE_TEST_SUITE_P(Machines, RemoteGroupConcurrency,
                         ::testing::Values(Machines{2, 2}, Machines{3, 2}, Machines{3, 3},
                                           Machines{4, 2}),
                         [](const auto& tested) {
                           return text(tested.param.world_size, "RanksOn", tested.param.count);
                         });

TEST_P(RemoteGroupConcurrency, RunsProgramAcrossMachines) {
  EXPECT_THAT(on_machines(GetParam(), run_program), Each(IsEmpty()));
}

// Three machines with six, three and one ranks. The lowest rank of each machine communicates for
// all of its ranks.
const Machines kUneven{.world_size = 10, .sizes = {6, 3, 1}};

// Data written before a barrier must be visible to ranks of all machines after it.
TEST(RemoteGroupConcurrency, BarriersSpanUnevenMachines) {
  const auto results = on_machines(kUneven, [](SymmetricRank& own) -> std::string {
    const Handle& handle = own.handle;
    const int ranks = handle.world_size();
    for (int round = 1; round <= 20; ++round) {
      own.buffer.as<int>()[round % 2] = round;
      handle.barrier(round % 3, kTestTimeout);
      for (const int step : {1, ranks / 2, ranks - 1}) {
        int seen = 0;
        handle.get((handle.rank() + step) % ranks, std::as_writable_bytes(std::span(&seen, 1)),
                   static_cast<int64_t>(sizeof(int)) * (round % 2));
        if (seen != round) return text("barrier passed too early: ", seen, " instead of ", round);
      }
    }
    handle.barrier(0, kTestTimeout);
    own.buffer.as<int>()[0] = handle.rank();
    handle.all_reduce(1, {ElementType::kI32, ReduceOp::kSum}, {.timeout = kTestTimeout});
    return own.buffer.as<int>()[0] == ranks * (ranks - 1) / 2 ? "" : "wrong sum";
  });
  EXPECT_THAT(results, Each(IsEmpty()));
}

// Ranks 6 and 7 are on one machine, for which rank 6 communicates.
TEST(RemoteGroupConcurrency, BarrierAcrossUnevenMachinesNamesLateRank) {
  const auto results = on_machines(kUneven, [](SymmetricRank& own) -> std::string {
    std::string late = "for rank 7;";
    if (own.group.rank() != 7) {
      late = error_message_naming(late, [&] { own.group.barrier(5, milliseconds(500)); });
    }
    own.group.barrier(0, kTestTimeout);
    own.group.barrier(5, kTestTimeout);
    own.group.leave(kTestTimeout);
    return late;
  });
  EXPECT_THAT(results, Each(HasSubstr("for rank 7;")));
}

TEST(RemoteGroupConcurrency, MissingTransportIsReportedByAllRanks) {
  const auto results = on_machines({.world_size = 3, .has_transport = false}, run_program);
  EXPECT_THAT(results,
              Each(AllOf(HasSubstr("invalid argument: rank 1 of group world is on another machine "
                                   "than rank 0, and ranks 0, 1 and 2 have no transport"),
                         HasSubstr("set one in the group options"))));
}

TEST(RemoteGroupConcurrency, GroupOnOneMachineDoesNotListen) {
  const Machines one_machine{.world_size = 3, .count = 1, .devices = {}};
  const auto results = on_machines(one_machine, [](SymmetricRank& own) -> std::string {
    if (std::string wrong = run_program(own); !wrong.empty()) return wrong;
    own.group.barrier(0, kTestTimeout);
    return listening_addresses().empty() ? "" : "listens on " + listening_addresses().front();
  });
  EXPECT_THAT(results, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, GroupAcrossMachinesListensOnTheChosenDevice) {
  const auto results = on_machines({}, [](SymmetricRank& own) -> std::string {
    own.group.barrier(0, kTestTimeout);
    const std::vector<std::string> addresses = listening_addresses();
    if (addresses.empty()) return "does not listen";
    for (const std::string& each : addresses) {
      if (each != "127.0.0.1" && each != "::1") return "listens on " + each;
    }
    own.group.barrier(0, kTestTimeout);
    return {};
  });
  EXPECT_THAT(results, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, SubGroupOnOneMachineIsDirect) {
  const auto results = on_machines({.world_size = 4}, [](SymmetricRank& own) -> std::string {
    const int side = own.group.rank() % 2;
    Group near = own.group.sub_group({.name = text("near", side),
                                      .ranks = {side, side + 2},
                                      .measure_thresholds = false,
                                      .timeout = kTestTimeout});
    const Handle handle = near.rendezvous(own.buffer, kTestTimeout);
    handle.view<int>(1 - handle.rank(), 1)[0] = 7 + side;
    near.barrier(0, kTestTimeout);
    near.leave(kTestTimeout);
    return own.buffer.as<int>()[0] == 7 + side ? "" : "the peer did not write";
  });
  EXPECT_THAT(results, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, TimedOutBarrierNamesRankAndResumes) {
  // Rank 1 communicates for rank 3, which is on the same machine.
  const auto results = on_machines({.world_size = 4}, [](SymmetricRank& own) -> std::string {
    std::string late = "for rank 3;";
    if (own.group.rank() != 3) {
      late = error_message_naming(late, [&] { own.group.barrier(5, milliseconds(300)); });
    }
    own.group.barrier(0, kTestTimeout);
    own.group.barrier(5, kTestTimeout);
    own.group.barrier(5, kTestTimeout);
    own.group.leave(kTestTimeout);
    return late;
  });
  EXPECT_THAT(results, Each(HasSubstr("for rank 3;")));
}

TEST(RemoteGroupConcurrency, TimedOutBarrierNamesAllRanksOfLateMachine) {
  const auto results = on_machines({.world_size = 4}, [](SymmetricRank& own) -> std::string {
    const auto is_on = [&](int side) { return own.group.rank() % 2 == side; };
    std::string late;
    for (int side = 0; side < 2; ++side) {
      const std::string expected = text("for ranks ", side, " and ", side + 2, ";");
      for (int again = 0; again < 2 && !is_on(side); ++again) {
        late = error_message_naming(expected, [&] { own.group.barrier(5, milliseconds(300)); });
        if (late.find(expected) == std::string::npos) return late;
      }
      own.group.barrier(0, kTestTimeout);
      own.group.barrier(5, kTestTimeout);
    }
    return {};
  });
  EXPECT_THAT(results, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, SecondSignalWaitsForFirst) {
  const auto results = on_machines({}, [](SymmetricRank& own) -> std::string {
    const Handle& handle = own.handle;
    if (handle.rank() == 0) {
      handle.put_signal(1, 4, kTestTimeout);
      const std::string full = error_message([&] { handle.put_signal(1, 4, milliseconds(50)); });
      if (full.find("to signal rank 1 on channel 4") == std::string::npos) return full;
      handle.barrier(0, kTestTimeout);
      handle.put_signal(1, 4, kTestTimeout);  // completes after the first signal is received
      handle.barrier(0, kTestTimeout);
      return {};
    }
    handle.barrier(0, kTestTimeout);
    handle.wait_signal(0, 4, kTestTimeout);
    handle.wait_signal(0, 4, kTestTimeout);
    handle.barrier(0, kTestTimeout);
    const std::string empty = error_message([&] { handle.wait_signal(0, 4, milliseconds(1)); });
    return empty.find("timeout") == std::string::npos ? "a third signal" : "";
  });
  EXPECT_THAT(results, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, TimedOutCollectiveResumes) {
  const auto results = on_machines({.world_size = 3}, [](SymmetricRank& own) -> std::string {
    const Reduction sum{ElementType::kI32, ReduceOp::kSum};
    own.buffer.as<int>()[0] = own.handle.rank() + 1;
    const auto reduce = [&](milliseconds timeout) {
      own.handle.two_shot_all_reduce(1, sum, {0, nullptr, timeout});
    };
    if (own.handle.rank() != 1) {
      const std::string late = error_message_naming("rank 1", [&] { reduce(milliseconds(100)); });
      if (late.find("rank 1") == std::string::npos) return late;
    }
    own.group.barrier(0, kTestTimeout);
    reduce(kTestTimeout);
    return own.buffer.as<int>()[0] == 6 ? "" : "wrong sum";
  });
  EXPECT_THAT(results, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, MismatchedCallsFailOnAllRanks) {
  const auto results = on_machines({.world_size = 4}, [](SymmetricRank& own) -> std::string {
    const Reduction sum{ElementType::kI32, ReduceOp::kSum};
    const int64_t count = own.handle.rank() == 2 ? 5 : 4;
    const std::string refused = error_message([&] {
      own.handle.one_shot_all_reduce(count, sum, {0, nullptr, kTestTimeout});
    });
    if (refused.find("rank 2") == std::string::npos) return refused;
    own.buffer.as<int>()[0] = 2;
    own.handle.all_reduce(1, sum, {0, nullptr, kTestTimeout});
    return own.buffer.as<int>()[0] == 8 ? "" : "wrong sum";
  });
  EXPECT_THAT(results, Each(IsEmpty()));
}

TEST(RemoteGroupConcurrency, DroppedGroupFailsForPeers) {
  const auto results = on_machines({.world_size = 3}, [](SymmetricRank& own) -> std::string {
    if (own.group.rank() == 1) return "rank 1 drops its group";
    return error_message([&] { own.group.barrier(0, kTestTimeout); });
  });
  EXPECT_THAT(results, Each(HasSubstr("rank 1")));
}

TEST(RemoteGroupConcurrency, LeaveReportsRejectedPosts) {
  const auto results = on_machines({}, [](SymmetricRank& own) -> std::string {
    SymmetricBuffer lent = own.heap.allocate(64);
    std::optional<Handle> handle = own.group.rendezvous(lent, kTestTimeout);
    if (own.group.rank() == 1) {
      handle.reset();
      lent.reset();
    }
    own.group.barrier(0, kTestTimeout);
    const std::byte sent[4] = {};
    if (own.group.rank() == 0) handle->post(1, sent);
    return error_message([&] { own.group.leave(kTestTimeout); });
  });
  EXPECT_THAT(results[0], HasSubstr("rank 1 of group world no longer shares"));
  EXPECT_EQ(results[1], "nothing");
}

TEST(RemoteGroupConcurrency, RejectsFreedRemoteMemory) {
  const auto results = on_machines({}, [](SymmetricRank& own) -> std::string {
    SymmetricBuffer lent = own.heap.allocate(64);
    std::optional<Handle> handle = own.group.rendezvous(lent, kTestTimeout);
    if (own.group.rank() == 1) {
      handle.reset();
      lent.reset();
    }
    own.group.barrier(0, kTestTimeout);
    std::string refused;
    if (own.group.rank() == 0) {
      const std::byte sent[4] = {};
      refused = error_message([&] { handle->put(1, sent); });
      if (refused.find("invalid argument: rank 1 of group world no longer shares") == 0)
        refused.clear();
    }
    own.group.barrier(0, kTestTimeout);
    return refused;
  });
  EXPECT_THAT(results, Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
