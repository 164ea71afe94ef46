// SPDX-License-Identifier: Apache-2.0
//
// Memory, signals and groups of symmetric memory, in several processes. Results of collectives are
// in symmetric_results_test.cc, failures in peer_failure_test.cc, keys in store_keys_test.cc.
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/align.h"
#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {
namespace {

constexpr size_t kMemoryBytes = size_t{64} * 1024;

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricMemory, ::testing::Values(1, 2, 3, 4, 5, 8),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricMemory, PadPrecedesAlignedBufferAndIsZero) {
  RankProcesses ranks(GetParam(), with_memory(1, [](SymmetricRank& own) -> std::string {
                        const Handle& handle = own.handle;
                        if (handle.signal_pad_bytes() < 9216) return "pad is too small";
                        for (int rank = 0; rank < handle.world_size(); ++rank) {
                          std::byte* buffer = handle.buffer_ptrs()[rank];
                          if (buffer != handle.signal_pad_ptrs()[rank] + 9216)
                            return "wrong layout";
                          if (!is_aligned(reinterpret_cast<uintptr_t>(buffer), 128))
                            return "not aligned";
                          for (const uint32_t slot : handle.signal_pad(rank)) {
                            if (slot != 0) return "a pad is not zero";
                          }
                        }
                        own.group.barrier(0, kTestTimeout);
                        return {};
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMemory, RendezvousIsCachedAndChecksOrder) {
  RankProcesses ranks(3, [](const RankSpec& rank) -> std::string {
    Heap heap(SymmetricRank::heap_options());
    Group world = Group::join(heap, rank.store, SymmetricRank::group_options(rank));
    SymmetricBuffer first = heap.allocate(kMemoryBytes);
    SymmetricBuffer second = heap.allocate(kMemoryBytes);
    std::optional<Group> pair;
    if (rank.rank != 1) {
      pair = world.sub_group(
          {.name = "pair", .ranks = {2, 0}, .measure_thresholds = false, .timeout = kTestTimeout});
      const Handle paired = pair->rendezvous(first, kTestTimeout);
      paired.view<int>(paired.rank(), 1)[0] = 40 + rank.rank;
      paired.barrier(0, kTestTimeout);
      if (paired.view<int>(1 - paired.rank(), 1)[0] != 42 - rank.rank) return "wrong pair";
    }
    (void)world.rendezvous(first, kTestTimeout);
    // The handle is cached, so one rank can call rendezvous alone.
    if (rank.rank == 1) (void)world.rendezvous(first.data() + 100, milliseconds(1));
    SymmetricBuffer third = heap.allocate(kMemoryBytes);
    const std::string refused = error_message(
        [&] { (void)world.rendezvous(rank.rank == 2 ? third : second, kTestTimeout); });
    world.barrier(0, kTestTimeout);
    if (pair) pair->leave(kTestTimeout);
    world.leave(kTestTimeout);
    return refused;
  });
  EXPECT_THAT(ranks.results(), Each(AllOf(HasSubstr("invalid argument"),
                                          HasSubstr("rank 0: 1, rank 1: 1, rank 2: 2"))));
}

TEST(SymmetricMemory, ErrorsListAllRanks) {
  RankProcesses ranks(
      4, with_memory(8, [](SymmetricRank& own) -> std::string {
        SymmetricBuffer odd = own.heap.allocate(own.group.rank() == 2 ? 32 : 16);
        const std::string message = error_message([&] { (void)own.group.rendezvous(odd); });
        const char* expected = "rank 0: 16, rank 1: 16, rank 2: 32, rank 3: 16";
        return message.find(expected) == std::string::npos ? "unexpected: " + message : "";
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// The exchange must not need the folder that TMPDIR names, which does not exist in this test. The
// format of the exchanged messages is tested in unit/symm/channel/channel_test.cc.
TEST(SymmetricMemory, ExchangesMemoryWithoutLeakingDescriptors) {
  RankProcesses ranks(3, [](const RankSpec& rank) -> std::string {
    const std::string folder = "/nowhere/" + std::string(300, 'x');
    ::setenv("TMPDIR", folder.c_str(), 1);
    SymmetricRank own(rank, kMemoryBytes);
    own.buffer.as<int>()[5] = rank.rank;
    own.group.barrier(0, kTestTimeout);
    const int next = (rank.rank + 1) % 3;
    if (own.handle.view<int>(next, 6)[5] != next) return "wrong memory of the next rank";
    own.group.leave(kTestTimeout);
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));  // a result lists leaked descriptors
}

TEST_P(SymmetricMemory, OwnerMayFreeFirst) {
  RankProcesses ranks(GetParam(), with_memory(kMemoryBytes, [](SymmetricRank& own) -> std::string {
                        const int rank = own.handle.rank();
                        std::ranges::fill(own.buffer.as<int>(), rank + 1);
                        own.group.barrier(0, kTestTimeout);
                        if (rank == 0) own.buffer.reset();
                        own.group.barrier(0, kTestTimeout);
                        if (own.handle.view<int>(0, kMemoryBytes / 4)[kMemoryBytes / 4 - 1] != 1)
                          return "gone";
                        own.group.barrier(0, kTestTimeout);
                        if (rank == 0 && own.heap.live_count() != 0) return "not freed";
                        return {};
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));  // a result lists leaked mappings
}

// put_signal is a release operation and wait_signal an acquire operation, so data written before
// put_signal is visible after wait_signal.
TEST_P(SymmetricMemory, SignalsReleaseAndLeaveThePadZero) {
  RankProcesses ranks(GetParam(), with_memory(kMemoryBytes, [](SymmetricRank& own) -> std::string {
                        const Handle& handle = own.handle;
                        const int count = handle.world_size();
                        const int next = (handle.rank() + 1) % count;
                        const int before = (handle.rank() + count - 1) % count;
                        for (int round = 1; round <= 2000; ++round) {
                          const int channel = round % 32;
                          handle.view<int>(next, 1, channel)[0] = round;
                          handle.put_signal(next, channel, kTestTimeout);
                          handle.wait_signal(before, channel, kTestTimeout);
                          if (handle.view<int>(handle.rank(), 1, channel)[0] != round)
                            return "not seen";
                          if (channel == 31) handle.barrier(0, kTestTimeout);
                        }
                        // No signal is pending, and the user's pad is unchanged.
                        for (int channel = 0; channel < 32; ++channel) {
                          const std::string empty = error_message(
                              [&] { handle.wait_signal(before, channel, milliseconds(1)); });
                          if (empty.find("timeout") == std::string::npos)
                            return "a signal is pending: " + empty;
                        }
                        for (const uint32_t slot : handle.signal_pad(handle.rank())) {
                          if (slot != 0) return "the user's pad was written";
                        }
                        handle.barrier(0, kTestTimeout);
                        return {};
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMemory, SecondPutSignalWaitsForFirst) {
  RankProcesses ranks(2, with_memory(8, [](SymmetricRank& own) -> std::string {
                        if (own.handle.rank() == 0) {
                          own.handle.put_signal(1, 4, kTestTimeout);
                          const std::string full =
                              error_message([&] { own.handle.put_signal(1, 4, milliseconds(20)); });
                          own.handle.barrier(0, kTestTimeout);
                          own.handle.put_signal(1, 4, kTestTimeout);
                          return full.find("timeout") == 0 ? "" : full;
                        }
                        own.handle.barrier(0, kTestTimeout);
                        own.handle.wait_signal(0, 4, kTestTimeout);
                        own.handle.wait_signal(0, 4, kTestTimeout);
                        return {};
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// Data written before a barrier must be visible to all ranks after it.
std::string check_barriers(SymmetricRank& own, int rounds) {
  const Handle& handle = own.handle;
  const int channels = own.group.channel_count();
  for (int round = 1; round <= rounds; ++round) {
    own.buffer.as<int>()[round % 2] = round;
    handle.barrier(round % channels, kTestTimeout);
    for (int rank = 0; rank < handle.world_size(); ++rank) {
      if (handle.view<int>(rank, 1, round % 2)[0] != round) return "barrier passed too early";
    }
  }
  handle.barrier(0, kTestTimeout);
  return {};
}

TEST_P(SymmetricMemory, RepeatsBarriersOnAnyChannel) {
  RankProcesses ranks(GetParam(),
                      with_memory(64, [](SymmetricRank& own) { return check_barriers(own, 500); }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// The ranks share a few cores, so heartbeats may be late and the lease is long.
TEST(SymmetricMemory, BarriersAndReductionsWorkFor72Ranks) {
  RankProcesses ranks(72, [](const RankSpec& rank) -> std::string {
    HeapOptions options;
    options.lease = kTestTimeout;
    SymmetricRank own(rank, 64, options);
    if (std::string wrong = check_barriers(own, 40); !wrong.empty()) return wrong;
    own.buffer.as<int>()[3] = rank.rank;
    own.handle.all_reduce(1, {ElementType::kI32, ReduceOp::kSum}, {12, nullptr, kTestTimeout});
    if (own.buffer.as<int>()[3] != 71 * 72 / 2) return "wrong sum";
    own.group.leave(kTestTimeout);
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMemory, SerializesOperationsPerGroup) {
  RankProcesses ranks(2, with_memory(kMemoryBytes, [](SymmetricRank& own) -> std::string {
                        Group other = own.group.sub_group({.name = "other",
                                                           .ranks = {1, 0},
                                                           .measure_thresholds = false,
                                                           .timeout = kTestTimeout});
                        const Handle elsewhere = other.rendezvous(own.buffer, kTestTimeout);
                        own.buffer.as<int>()[0] = 3 + own.group.rank();
                        own.buffer.as<int>()[100] = own.group.rank();
                        const auto repeat = [](const Handle& handle, int64_t offset, ReduceOp op) {
                          for (int round = 0; round < 100; ++round) {
                            handle.all_reduce(
                                1, {ElementType::kI32, op},
                                {.offset_bytes = offset, .out = nullptr, .timeout = kTestTimeout});
                          }
                        };
                        std::vector<std::thread> threads;
                        for (int thread = 0; thread < 3; ++thread) {
                          threads.emplace_back([&] { repeat(own.handle, 0, ReduceOp::kMax); });
                        }
                        threads.emplace_back([&] { repeat(elsewhere, 400, ReduceOp::kMin); });
                        for (std::thread& each : threads) each.join();
                        other.leave(kTestTimeout);
                        const auto words = own.buffer.as<int>();
                        return words[0] == 4 && words[100] == 0 ? "" : "wrong result";
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// Rank 0 has an incomplete barrier on every user channel when rank 1 starts to reduce.
TEST(SymmetricMemory, CollectivesUseNoUserChannel) {
  RankProcesses ranks(
      2, with_memory(8, [](SymmetricRank& own) -> std::string {
        int& word = own.buffer.as<int>()[0];
        word = own.group.rank();
        if (own.group.rank() == 0) {
          for (int channel = 0; channel < own.group.channel_count(); ++channel) {
            (void)error_message([&] { own.group.barrier(channel, milliseconds(1)); });
          }
          own.handle.put_signal(1, 0, kTestTimeout);
          std::this_thread::sleep_for(milliseconds(50));
          word = 10;
        } else {
          own.handle.wait_signal(0, 0, kTestTimeout);
        }
        own.handle.all_reduce(1, {ElementType::kI32, ReduceOp::kSum}, {0, nullptr, kTestTimeout});
        const int sum = word;
        for (int channel = 0; channel < own.group.channel_count(); ++channel) {
          own.group.barrier(channel, kTestTimeout);
        }
        return sum == 11 ? "" : "reduced before all ranks arrived";
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMemory, SignalsAreScopedToTheirGroup) {
  RankProcesses ranks(2, with_memory(8, [](SymmetricRank& own) -> std::string {
                        Group other = own.group.sub_group({.name = "other",
                                                           .ranks = {0, 1},
                                                           .measure_thresholds = false,
                                                           .timeout = kTestTimeout});
                        const Handle elsewhere = other.rendezvous(own.buffer, kTestTimeout);
                        std::string early = "timeout";
                        if (own.group.rank() == 0) {
                          own.handle.put_signal(1, 0, kTestTimeout);
                          own.handle.barrier(1, kTestTimeout);
                        } else {
                          own.handle.barrier(1, kTestTimeout);  // the signal has arrived
                          early =
                              error_message([&] { elsewhere.wait_signal(0, 0, milliseconds(50)); });
                          own.handle.wait_signal(0, 0, kTestTimeout);
                        }
                        other.leave(kTestTimeout);
                        return early.find("timeout") == 0 ? "" : "satisfied: " + early;
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMemory, TimeoutsNameRankPeerChannelAndTime) {
  RankProcesses ranks(
      3, with_memory(8, [](SymmetricRank& own) -> std::string {
        std::string message;
        if (own.group.rank() == 0) {
          message = error_message([&] { own.handle.wait_signal(2, 6, milliseconds(30)); });
          message += error_message([&] { own.group.barrier(5, milliseconds(30)); });
        }
        own.handle.barrier(0, kTestTimeout);
        own.group.barrier(5, kTestTimeout);  // completes the barrier that timed out on rank 0
        if (own.group.rank() != 0) return {};
        for (const char* part : {"timeout: rank 0 waited ", " s ", "from rank 2 on channel 6",
                                 "ranks 1 and 2", "channel 5"}) {
          if (message.find(part) == std::string::npos) return message;
        }
        return {};
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMemory, PersistentIdsKeepTheirAddress) {
  RankProcesses ranks(
      2, with_memory(8, [](SymmetricRank& own) -> std::string {
        SymmetricBuffer kept = own.heap.allocate(kMemoryBytes, {.group = {}, .persistent_id = 7});
        const std::byte* address = kept.data();
        const std::string live = error_message(
            [&] { (void)own.heap.allocate(kMemoryBytes, {.group = {}, .persistent_id = 7}); });
        SymmetricBuffer scoped = own.heap.allocate(16, {.group = "other", .persistent_id = 7});
        kept.reset();
        const std::string smaller =
            error_message([&] { (void)own.heap.allocate(16, {.group = {}, .persistent_id = 7}); });
        kept = own.heap.allocate(kMemoryBytes, {.group = {}, .persistent_id = 7});
        if (kept.data() != address) return "wrong address";
        if (live.find("still in use") == std::string::npos) return live;
        if (smaller.find("65536 bytes, requested 16") == std::string::npos) return smaller;
        (void)own.group.rendezvous(kept, kTestTimeout);
        return {};
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMemory, RejectsUnknownBackEnd) {
  RankProcesses ranks(
      1, with_memory(8, [](SymmetricRank& own) -> std::string {
        if (own.heap.backends() != std::vector<std::string>{"host"}) return "others";
        HeapOptions options = SymmetricRank::heap_options();
        const Heap again(options);
        options.backend = "nonesuch";
        const std::string message = error_message([&] { const Heap none(options); });
        return message.find("nonesuch") == std::string::npos ? "unexpected: " + message : "";
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST_P(SymmetricMemory, CleanExitLeaksNothing) {
  RankProcesses ranks(GetParam(), [](const RankSpec& rank) -> std::string {
    for (int round = 0; round < 2; ++round) {
      SymmetricRank own(rank, kMemoryBytes);
      own.handle.all_reduce(100);
      own.group.leave(kTestTimeout);
    }
    if (symmetric_mapping_count() != 0) return "leaked mappings";
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));  // a result lists leaked descriptors
  EXPECT_THAT(ranks.store_keys(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
