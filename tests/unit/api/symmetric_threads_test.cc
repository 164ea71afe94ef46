// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of one process: pools, and devices, of which each rank has one of one machine,
// or all share one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/devices.h"
#include "ashlar/errors.h"
#include "mp/harness/device_rank.h"
#include "symm/backends/cuda/kernel_image.h"

namespace ashlar::symm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// What each rank, on a thread of its own, ended with: nothing, or what it threw.
std::vector<std::string> on_threads(int world_size,
                                    const std::function<void(const RankSpec&)>& body) {
  std::vector<std::string> ended(static_cast<size_t>(world_size));
  const std::shared_ptr<Store> store = make_memory_store();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body({rank, world_size, store});
      } catch (const std::exception& thrown) {
        ended[static_cast<size_t>(rank)] = thrown.what();
      }
    });
  }
  for (std::thread& each : threads) each.join();
  return ended;
}

class SymmetricThreadsConcurrency : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricThreadsConcurrency, ::testing::Values(1, 2, 3),
                         ::testing::PrintToStringParamName());

// Ranks as threads of one process have different addresses for everything.
TEST_P(SymmetricThreadsConcurrency, Row17PoolsOfRanksThatDoTheSameHaveTheSamePlaces) {
  const int count = GetParam();
  const auto ended = on_threads(count, [&](const RankSpec& rank) {
    SymmetricRank own(rank, 8);
    Pool pool(own.heap, {.name = "pool", .segment_bytes = 4096});
    std::vector<Buffer> live;
    for (int round = 0; round < 20; ++round) {
      if (live.size() > 3) live.erase(live.begin() + round % 3);
      live.push_back(pool.allocate(static_cast<size_t>(100 + 700 * (round % 7))));
      const Handle handle = own.group.rendezvous(live.back(), kTestTimeout);
      const int next = (handle.rank() + 1) % count;
      const int32_t mark = 100 * round + handle.rank();
      handle.put(next, std::as_bytes(std::span(&mark, 1)));
      handle.barrier(0, kTestTimeout);
      EXPECT_EQ(live.back().as<int32_t>()[0], 100 * round + (handle.rank() + count - 1) % count);
      handle.all_reduce(1, {ElementType::kI32, ReduceOp::kMax},
                        {.offset_bytes = 0, .out = nullptr, .timeout = kTestTimeout});
      EXPECT_EQ(live.back().as<int32_t>()[0], 100 * round + count - 1);
      handle.barrier(0, kTestTimeout);
    }
    EXPECT_EQ(pool.stats().buffer_count, live.size());
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

TEST(SymmetricThreadsConcurrency, AGroupCountsWhatARankDidAndTimesItsPhases) {
  const auto ended = on_threads(2, [](const RankSpec& rank) {
    SymmetricRank own(rank, 64);  // one rendezvous; another was for the group's pad
    const auto before = own.group.stats();
    EXPECT_THAT(before.operations, IsEmpty());
    const std::vector<std::string> phases = {"joining",      "meeting", "linking", "recording",
                                             "handing over", "mapping", "agreeing"};
    ASSERT_EQ(before.phases.size(), phases.size());
    for (size_t i = 0; i < phases.size(); ++i) {
      EXPECT_EQ(before.phases[i].name, phases[i]);
      EXPECT_EQ(before.phases[i].count, i < 3 ? 1U : 2U) << phases[i];
    }
    EXPECT_GT(before.phases[0].time.count(), 0);

    const std::array<std::byte, 8> bytes{};
    own.handle.put(1 - rank.rank, bytes);
    own.handle.put(1 - rank.rank, bytes, 8);
    EXPECT_THROW(own.handle.put(7, bytes), InvalidArgument);  // is none
    own.handle.fetch(0, {.kind = AtomicKind::kAdd, .offset = 16, .operand = 1});
    own.group.barrier(0, kTestTimeout);
    own.handle.all_reduce(3, {}, {.offset_bytes = 32, .out = nullptr, .timeout = kTestTimeout});
    EXPECT_THAT(own.group.stats().to_string(),
                StartsWith("put: 2 calls, 16 bytes\nfetch: 1 call, 8 bytes\nbarrier: 1 call\n"
                           "all_reduce: 1 call, 12 bytes\njoining: 1 time, "));
    own.group.rendezvous(own.buffer, kTestTimeout);  // at hand
    EXPECT_EQ(own.group.stats().phases[3].count, 2U);
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

// What a rank writes down when the group fails is there for three of its leases.
TEST(SymmetricLeasesConcurrency, ThatDifferAreRefusedAlike) {
  const auto ended = on_threads(2, [](const RankSpec& rank) {
    const Heap heap({.lease = std::chrono::seconds(30 + rank.rank)});
    Group::join(heap, rank.store, SymmetricRank::group_options(rank));
  });
  EXPECT_THAT(ended[0], HasSubstr("have different leases, in ms: rank 0: 30000, rank 1: 31000"));
  EXPECT_EQ(ended[0], ended[1]);
}

// More ranks than a barrier in one step is for, and more than there are cores: leases are long.
TEST(SymmetricThreadsConcurrency, Row08BarriersAndReductionsWorkFor80Ranks) {
  constexpr int kRanks = 80;
  const auto ended = on_threads(kRanks, [](const RankSpec& rank) {
    HeapOptions patient = SymmetricRank::heap_options();
    patient.lease = kTestTimeout;
    SymmetricRank own(rank, 64, patient);
    const Reduction sum{ElementType::kI32, ReduceOp::kSum};
    for (int round = 1; round <= 10; ++round) {
      own.buffer.as<int>()[0] = rank.rank + round;
      own.group.barrier(round % 2, kTestTimeout);
      const int seen = own.handle.view<int>((rank.rank + 7 * round) % kRanks, 1)[0];
      EXPECT_EQ(seen, (rank.rank + 7 * round) % kRanks + round);
      own.group.barrier(0, kTestTimeout);
      const CollectiveOptions in_place{.timeout = kTestTimeout};
      if (round % 2 == 0) own.handle.one_shot_all_reduce(1, sum, in_place);
      if (round % 2 == 1) own.handle.two_shot_all_reduce(1, sum, in_place);
      EXPECT_EQ(own.buffer.as<int>()[0], kRanks * (kRanks - 1) / 2 + kRanks * round);
      own.group.barrier(0, kTestTimeout);
    }
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

TEST_P(SymmetricThreadsConcurrency, EachOnADeviceOfItsOwn) {
  const std::unique_ptr<sim::Machine> machine = make_machine(GetParam());
  const auto ended = on_threads(GetParam(), [&](const RankSpec& rank) {
    SimDeviceRank own(rank, *machine);
    EXPECT_EQ(run_device_program(own), "");
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
  for (int index = 0; index < GetParam(); ++index) {
    const auto use = machine->device(DeviceIndex(static_cast<uint64_t>(index))).memory_stats();
    EXPECT_EQ(use->free_bytes, use->total_bytes);
  }
}

TEST_P(SymmetricThreadsConcurrency, AllOnOneDevice) {
  const std::unique_ptr<sim::Machine> machine = make_machine(1);
  const auto ended = on_threads(GetParam(), [&](const RankSpec& rank) {
    GroupOptions options = SymmetricRank::group_options(rank);
    options.may_share_device = true;
    SimDeviceRank own(rank, *machine, 0, options);
    EXPECT_EQ(run_device_program(own), "");
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

// The kernels for CUDA devices on the stand-in driver, whose streams are threads.
TEST_P(SymmetricThreadsConcurrency, AllOnOneDeviceOfAVendor) {
  if (kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc and clang: no kernels";
  const std::unique_ptr<DeviceSet> devices = *open_cuda({.library = ASHLAR_CUDA_STANDIN});
  const auto ended = on_threads(GetParam(), [&](const RankSpec& rank) {
    GroupOptions options = SymmetricRank::group_options(rank);
    options.may_share_device = true;
    DeviceRank own(rank, devices->device(DeviceIndex(0)), options);
    EXPECT_EQ(run_device_program(own), "");
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

// Devices of their own have addresses of their own for everybody's memory.
TEST(SymmetricThreadsConcurrency, EachOnADeviceOfAVendor) {
  if (kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc and clang: no kernels";
  const std::unique_ptr<DeviceSet> devices = *open_cuda({.library = ASHLAR_CUDA_STANDIN});
  const auto ended = on_threads(2, [&](const RankSpec& rank) {
    Device& device = devices->device(DeviceIndex(static_cast<uint64_t>(rank.rank)));
    DeviceRank own(rank, device, SymmetricRank::group_options(rank));
    EXPECT_EQ(run_device_program(own), "");
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

// What `act` timed out with; empty: it did not.
std::string lateness(const std::function<void()>& act) {
  try {
    act();
  } catch (const TimeoutError& late) {
    return late.status().message();
  }
  return "";
}

// While one call waits for a signal of channel 4, a wait in a stream for one of channel 5 ends
// badly. Whoever throws has done nothing: where the first call tells of the second, which it may if
// it began too late, its own signal is still there.
TEST(SymmetricThreadsConcurrency, ACallThatWaitsTellsOfNoOthersEnd) {
  const std::unique_ptr<sim::Machine> machine = make_machine(2);
  std::atomic<bool> is_late{false};
  const auto ended = on_threads(2, [&](const RankSpec& rank) {
    SimDeviceRank own(rank, *machine);
    if (rank.rank == 1) {
      is_late.wait(false);
      own.handle.put_signal(0, 4, kTestTimeout);
      own.group.leave(kTestTimeout);
      return;
    }
    const StreamId stream = *own.device().create_stream();
    own.handle.wait_signal(1, 5, std::chrono::milliseconds(100), stream);
    std::thread watch([&] {
      EXPECT_TRUE(own.device().synchronize_stream(stream).ok());
      is_late = true;
      is_late.notify_all();
    });
    const std::string first = lateness([&] { own.handle.wait_signal(1, 4, kTestTimeout); });
    watch.join();
    const std::string second = lateness([&] {
      if (first.empty()) own.group.finish(stream);
      if (!first.empty()) own.handle.wait_signal(1, 4, kTestTimeout);
    });
    EXPECT_THAT(first.empty() ? second : first, HasSubstr("channel 5"));
    EXPECT_THAT(first.empty() ? first : second, IsEmpty());
    EXPECT_TRUE(own.device().destroy_stream(stream).ok());
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
