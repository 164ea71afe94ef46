// SPDX-License-Identifier: Apache-2.0
//
// Tests of ranks that are threads of one process: pools, and device memory on one shared device or
// on one device per rank.
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

// Runs each rank on its own thread. Returns the error message of each rank, which is empty if the
// rank succeeded.
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

// The ranks map the same memory at different addresses, so their pools must place each buffer at
// the same offset.
TEST_P(SymmetricThreadsConcurrency, PoolsOfRanksAgreeOnPositions) {
  const int count = GetParam();
  const auto ended = on_threads(count, [&](const RankSpec& rank) {
    SymmetricRank own(rank, 8);
    SymmetricPool pool(own.heap, {.name = "pool", .segment_bytes = 4096});
    std::vector<SymmetricBuffer> live;
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

TEST(SymmetricThreadsConcurrency, CountsOperationsAndTimesPhases) {
  const auto ended = on_threads(2, [](const RankSpec& rank) {
    SymmetricRank own(rank, 64);  // makes a rendezvous, in addition to that of the signal pad
    const auto before = own.group.stats();
    EXPECT_THAT(before.operations, IsEmpty());
    const std::vector<std::string> phases = {
        "joining",         "confirming", "connecting", "exchanging records",
        "sending handles", "mapping",    "agreeing"};
    ASSERT_EQ(before.phases.size(), phases.size());
    for (size_t i = 0; i < phases.size(); ++i) {
      EXPECT_EQ(before.phases[i].name, phases[i]);
      EXPECT_EQ(before.phases[i].count, i < 3 ? 1U : 2U) << phases[i];
    }
    EXPECT_GT(before.phases[0].time.count(), 0);

    const std::array<std::byte, 8> bytes{};
    own.handle.put(1 - rank.rank, bytes);
    own.handle.put(1 - rank.rank, bytes, 8);
    EXPECT_THROW(own.handle.put(7, bytes), InvalidArgument);  // rank 7 does not exist
    own.handle.fetch(0, {.kind = AtomicKind::kAdd, .offset = 16, .operand = 1});
    own.group.barrier(0, kTestTimeout);
    own.handle.all_reduce(3, {}, {.offset_bytes = 32, .out = nullptr, .timeout = kTestTimeout});
    EXPECT_THAT(own.group.stats().to_string(),
                StartsWith("put: 2 calls, 16 bytes\nfetch: 1 call, 8 bytes\nbarrier: 1 call\n"
                           "all_reduce: 1 call, 12 bytes\njoining: 1 time, "));
    own.group.rendezvous(own.buffer, kTestTimeout);  // a local call, which is not counted
    EXPECT_EQ(own.group.stats().phases[3].count, 2U);
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

TEST(SymmetricLeasesConcurrency, RejectsDifferentLeasesOnAllRanks) {
  const auto ended = on_threads(2, [](const RankSpec& rank) {
    const Heap heap({.lease = std::chrono::seconds(30 + rank.rank)});
    Group::join(heap, rank.store, SymmetricRank::group_options(rank));
  });
  EXPECT_THAT(ended[0], HasSubstr("have different leases, in ms: rank 0: 30000, rank 1: 31000"));
  EXPECT_EQ(ended[0], ended[1]);
}

// There are more ranks than kAllToAllRanks, so the barriers use the dissemination algorithm. Leases
// are long because there are also more ranks than cores.
TEST(SymmetricThreadsConcurrency, BarriersAndReductionsWorkFor80Ranks) {
  constexpr int kRanks = 80;
  const auto ended = on_threads(kRanks, [](const RankSpec& rank) {
    HeapOptions long_lease = SymmetricRank::heap_options();
    long_lease.lease = kTestTimeout;
    SymmetricRank own(rank, 64, long_lease);
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

TEST_P(SymmetricThreadsConcurrency, RanksRunOnSeparateDevices) {
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

TEST_P(SymmetricThreadsConcurrency, RanksShareOneDevice) {
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

// Runs the CUDA kernels on the stand-in driver, whose streams are threads.
TEST_P(SymmetricThreadsConcurrency, RanksShareOneGpu) {
  if (kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc and clang: no kernels";
  const std::unique_ptr<DeviceSet> devices = *try_open_cuda({.library = ASHLAR_CUDA_STANDIN});
  const auto ended = on_threads(GetParam(), [&](const RankSpec& rank) {
    GroupOptions options = SymmetricRank::group_options(rank);
    options.may_share_device = true;
    DeviceRank own(rank, devices->device(DeviceIndex(0)), options);
    EXPECT_EQ(run_device_program(own), "");
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

// Each device maps the memory of all ranks at its own addresses.
TEST(SymmetricThreadsConcurrency, RanksRunOnSeparateGpus) {
  if (kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc and clang: no kernels";
  const std::unique_ptr<DeviceSet> devices = *try_open_cuda({.library = ASHLAR_CUDA_STANDIN});
  const auto ended = on_threads(2, [&](const RankSpec& rank) {
    Device& device = devices->device(DeviceIndex(static_cast<uint64_t>(rank.rank)));
    DeviceRank own(rank, device, SymmetricRank::group_options(rank));
    EXPECT_EQ(run_device_program(own), "");
    own.group.leave(kTestTimeout);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

// Returns the message of the TimeoutError that `operation` throws; empty if it does not throw.
std::string timeout_message(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const TimeoutError& late) {
    return late.status().message();
  }
  return "";
}

// While a call waits for a signal on channel 4, a queued wait for channel 5 fails. If the call
// starts after that failure, it may report the failure instead, but must not consume its signal.
TEST(SymmetricThreadsConcurrency, BlockedCallDoesNotReportErrorOfOtherWork) {
  const std::unique_ptr<sim::Machine> machine = make_machine(2);
  std::atomic<bool> has_wait_failed{false};
  const auto ended = on_threads(2, [&](const RankSpec& rank) {
    SimDeviceRank own(rank, *machine);
    if (rank.rank == 1) {
      has_wait_failed.wait(false);
      own.handle.put_signal(0, 4, kTestTimeout);
      own.group.leave(kTestTimeout);
      return;
    }
    const StreamId stream = *own.device().create_stream();
    own.handle.wait_signal(1, 5, std::chrono::milliseconds(100), stream);
    std::thread watch([&] {
      EXPECT_TRUE(own.device().synchronize_stream(stream).ok());
      has_wait_failed = true;
      has_wait_failed.notify_all();
    });
    const std::string first = timeout_message([&] { own.handle.wait_signal(1, 4, kTestTimeout); });
    watch.join();
    const std::string second = timeout_message([&] {
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
