// SPDX-License-Identifier: Apache-2.0
//
// The acceptance checklist of symmetric memory, row by row, with real processes: memory, signals,
// groups. Results of collectives are in symmetric_results_test.cc, deaths in
// symmetric_deaths_test.cc, keys in symmetric_keys_test.cc.
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/align.h"
#include "mp/symmetric_rank.h"

namespace ashlar::symm {
namespace {

constexpr size_t kBytes = size_t{64} * 1024;

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricMemory, ::testing::Values(1, 2, 3, 4, 5, 8),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricMemory, Row01ThePadComesFirstAndIsZeroAndTheBufferIsAligned) {
  Ranks ranks(GetParam(), with_memory(1, [](SymmetricRank& own) -> std::string {
                const Handle& handle = own.handle;
                if (handle.signal_pad_bytes() < 9216) return "a small pad";
                for (int rank = 0; rank < handle.world_size(); ++rank) {
                  std::byte* buffer = handle.buffer_ptrs()[rank];
                  if (buffer != handle.signal_pad_ptrs()[rank] + 9216) return "another layout";
                  if (!is_aligned(reinterpret_cast<uintptr_t>(buffer), 128)) return "not aligned";
                  for (const uint32_t slot : handle.signal_pad(rank)) {
                    if (slot != 0) return "a pad is not zero";
                  }
                }
                own.group.barrier(0, kPatience);
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricMemory, Row02ARendezvousIsKeptAndSafeAfterSubGroupsAndChecksTheOrder) {
  Ranks ranks(3, [](const BareRank& rank) -> std::string {
    Heap heap(SymmetricRank::heap_options());
    Group world = Group::join(heap, rank.store, SymmetricRank::group_options(rank));
    Buffer first = heap.allocate(kBytes);
    Buffer second = heap.allocate(kBytes);
    std::optional<Group> pair;
    if (rank.rank != 1) {
      pair = world.sub_group(
          {.name = "pair", .ranks = {2, 0}, .measure_thresholds = false, .timeout = kPatience});
      const Handle paired = pair->rendezvous(first, kPatience);
      paired.view<int>(paired.rank(), 1)[0] = 40 + rank.rank;
      paired.barrier(0, kPatience);
      if (paired.view<int>(1 - paired.rank(), 1)[0] != 42 - rank.rank) return "another pair";
    }
    (void)world.rendezvous(first, kPatience);
    // One rank alone: it is at hand.
    if (rank.rank == 1) (void)world.rendezvous(first.data() + 100, milliseconds(1));
    Buffer third = heap.allocate(kBytes);
    const std::string refused =
        thrown_by([&] { (void)world.rendezvous(rank.rank == 2 ? third : second, kPatience); });
    world.barrier(0, kPatience);
    if (pair) pair->leave(kPatience);
    world.leave(kPatience);
    return refused;
  });
  EXPECT_THAT(ranks.outcomes(), Each(AllOf(HasSubstr("invalid argument"),
                                           HasSubstr("rank 0: 1, rank 1: 1, rank 2: 2"))));
}

TEST(SymmetricMemory, Row03ErrorsListAllRanks) {
  Ranks ranks(4, with_memory(8, [](SymmetricRank& own) -> std::string {
                Buffer odd = own.heap.allocate(own.group.rank() == 2 ? 32 : 16);
                const std::string said = thrown_by([&] { (void)own.group.rendezvous(odd); });
                const char* expected = "rank 0: 16, rank 1: 16, rank 2: 32, rank 3: 16";
                return said.find(expected) == std::string::npos ? "instead: " + said : "";
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// What the messages themselves must look like: unit/symm/channel/channel_test.cc.
TEST(SymmetricMemory, Row04MemoryIsHandedOverWithoutAFolderAndNothingStaysOpen) {
  Ranks ranks(3, [](const BareRank& rank) -> std::string {
    const std::string folder = "/nowhere/" + std::string(300, 'x');
    ::setenv("TMPDIR", folder.c_str(), 1);
    SymmetricRank own(rank, kBytes);
    own.buffer.as<int>()[5] = rank.rank;
    own.group.barrier(0, kPatience);
    const int next = (rank.rank + 1) % 3;
    if (own.handle.view<int>(next, 6)[5] != next) return "not the next one's memory";
    own.group.leave(kPatience);
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));  // they say so if descriptors are left
}

TEST_P(SymmetricMemory, Row05TheOwnerMayFreeFirst) {
  Ranks ranks(GetParam(), with_memory(kBytes, [](SymmetricRank& own) -> std::string {
                const int rank = own.handle.rank();
                std::ranges::fill(own.buffer.as<int>(), rank + 1);
                own.group.barrier(0, kPatience);
                if (rank == 0) own.buffer.reset();
                own.group.barrier(0, kPatience);
                if (own.handle.view<int>(0, kBytes / 4)[kBytes / 4 - 1] != 1) return "gone";
                own.group.barrier(0, kPatience);
                if (rank == 0 && own.heap.live_count() != 0) return "not freed";
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));  // they say so if something stays mapped
}

// --- signals ------------------------------------------------------------------------------------

// That put is a release and wait an acquire is what makes the words before the signal arrive.
TEST_P(SymmetricMemory, Row07PutIsAReleaseCasAndThePadIsZeroAtRest) {
  Ranks ranks(GetParam(), with_memory(kBytes, [](SymmetricRank& own) -> std::string {
                const Handle& handle = own.handle;
                const int count = handle.world_size();
                const int next = (handle.rank() + 1) % count;
                const int before = (handle.rank() + count - 1) % count;
                for (int round = 1; round <= 2000; ++round) {
                  const int channel = round % 32;
                  handle.view<int>(next, 1, channel)[0] = round;
                  handle.put_signal(next, channel, kPatience);
                  handle.wait_signal(before, channel, kPatience);
                  if (handle.view<int>(handle.rank(), 1, channel)[0] != round) return "not seen";
                  if (channel == 31) handle.barrier(0, kPatience);
                }
                // Nothing is left to be taken, and nobody touched the user's pad.
                for (int channel = 0; channel < 32; ++channel) {
                  const std::string empty =
                      thrown_by([&] { handle.wait_signal(before, channel, milliseconds(1)); });
                  if (empty.find("timeout") == std::string::npos) return "a slot is full: " + empty;
                }
                for (const uint32_t slot : handle.signal_pad(handle.rank())) {
                  if (slot != 0) return "the user's pad was touched";
                }
                handle.barrier(0, kPatience);
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricMemory, Row07ASecondPutWaitsUntilTheFirstWasTaken) {
  Ranks ranks(2, with_memory(8, [](SymmetricRank& own) -> std::string {
                if (own.handle.rank() == 0) {
                  own.handle.put_signal(1, 4, kPatience);
                  const std::string full =
                      thrown_by([&] { own.handle.put_signal(1, 4, milliseconds(20)); });
                  own.handle.barrier(0, kPatience);
                  own.handle.put_signal(1, 4, kPatience);
                  return full.find("timeout") == 0 ? "" : full;
                }
                own.handle.barrier(0, kPatience);
                own.handle.wait_signal(0, 4, kPatience);
                own.handle.wait_signal(0, 4, kPatience);
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// What every rank wrote before a barrier, all read after it.
std::string meet_often(SymmetricRank& own, int rounds) {
  const Handle& handle = own.handle;
  const int channels = own.group.channel_count();
  for (int round = 1; round <= rounds; ++round) {
    own.buffer.as<int>()[round % 2] = round;
    handle.barrier(round % channels, kPatience);
    for (int rank = 0; rank < handle.world_size(); ++rank) {
      if (handle.view<int>(rank, 1, round % 2)[0] != round) return "passed too early";
    }
  }
  handle.barrier(0, kPatience);
  return {};
}

TEST_P(SymmetricMemory, Row08BarriersFollowEachOtherAtOnceOnAnyChannel) {
  Ranks ranks(GetParam(), with_memory(64, [](SymmetricRank& own) { return meet_often(own, 500); }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// They share a few cores here, so that signs of life can be late.
TEST(SymmetricMemory, Row08BarriersAndReductionsWorkFor72Ranks) {
  Ranks ranks(72, [](const BareRank& rank) -> std::string {
    HeapOptions patient;
    patient.lease = kPatience;
    SymmetricRank own(rank, 64, patient);
    if (std::string wrong = meet_often(own, 40); !wrong.empty()) return wrong;
    own.buffer.as<int>()[3] = rank.rank;
    own.handle.all_reduce(1, {ElementType::kI32, ReduceOp::kSum}, {12, nullptr, kPatience});
    if (own.buffer.as<int>()[3] != 71 * 72 / 2) return "another sum";
    own.group.leave(kPatience);
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// --- groups -------------------------------------------------------------------------------------

TEST(SymmetricMemory, Row09OperationsOfAGroupTakeTurnsAndGroupsAreIndependent) {
  Ranks ranks(
      2, with_memory(kBytes, [](SymmetricRank& own) -> std::string {
        Group other = own.group.sub_group(
            {.name = "other", .ranks = {1, 0}, .measure_thresholds = false, .timeout = kPatience});
        const Handle elsewhere = other.rendezvous(own.buffer, kPatience);
        own.buffer.as<int>()[0] = 3 + own.group.rank();
        own.buffer.as<int>()[100] = own.group.rank();
        const auto repeat = [](const Handle& handle, int64_t offset, ReduceOp op) {
          for (int round = 0; round < 100; ++round) {
            handle.all_reduce(1, {ElementType::kI32, op},
                              {.offset_bytes = offset, .out = nullptr, .timeout = kPatience});
          }
        };
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 3; ++thread) {
          threads.emplace_back([&] { repeat(own.handle, 0, ReduceOp::kMax); });
        }
        threads.emplace_back([&] { repeat(elsewhere, 400, ReduceOp::kMin); });
        for (std::thread& each : threads) each.join();
        other.leave(kPatience);
        const auto words = own.buffer.as<int>();
        return words[0] == 4 && words[100] == 0 ? "" : "another result";
      }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// Rank 0 has announced itself at every barrier a user can name when rank 1 begins to reduce.
TEST(SymmetricMemory, Row09CollectivesUseNoneOfTheUsersChannels) {
  Ranks ranks(
      2, with_memory(8, [](SymmetricRank& own) -> std::string {
        int& word = own.buffer.as<int>()[0];
        word = own.group.rank();
        if (own.group.rank() == 0) {
          for (int channel = 0; channel < own.group.channel_count(); ++channel) {
            (void)thrown_by([&] { own.group.barrier(channel, milliseconds(1)); });
          }
          own.handle.put_signal(1, 0, kPatience);
          std::this_thread::sleep_for(milliseconds(50));
          word = 10;
        } else {
          own.handle.wait_signal(0, 0, kPatience);
        }
        own.handle.all_reduce(1, {ElementType::kI32, ReduceOp::kSum}, {0, nullptr, kPatience});
        const int sum = word;
        for (int channel = 0; channel < own.group.channel_count(); ++channel) {
          own.group.barrier(channel, kPatience);
        }
        return sum == 11 ? "" : "reduced before all had come";
      }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricMemory, Row10ASignalOfOneGroupNeverSatisfiesAnother) {
  Ranks ranks(
      2, with_memory(8, [](SymmetricRank& own) -> std::string {
        Group other = own.group.sub_group(
            {.name = "other", .ranks = {0, 1}, .measure_thresholds = false, .timeout = kPatience});
        const Handle elsewhere = other.rendezvous(own.buffer, kPatience);
        std::string early = "timeout";
        if (own.group.rank() == 0) {
          own.handle.put_signal(1, 0, kPatience);
          own.handle.barrier(1, kPatience);
        } else {
          own.handle.barrier(1, kPatience);  // it is there
          early = thrown_by([&] { elsewhere.wait_signal(0, 0, milliseconds(50)); });
          own.handle.wait_signal(0, 0, kPatience);
        }
        other.leave(kPatience);
        return early.find("timeout") == 0 ? "" : "satisfied: " + early;
      }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricMemory, Row11TimeoutsNameRankPeerChannelAndTimeAndAllGoesOn) {
  Ranks ranks(3, with_memory(8, [](SymmetricRank& own) -> std::string {
                std::string said;
                if (own.group.rank() == 0) {
                  said = thrown_by([&] { own.handle.wait_signal(2, 6, milliseconds(30)); });
                  said += thrown_by([&] { own.group.barrier(5, milliseconds(30)); });
                }
                own.handle.barrier(0, kPatience);
                own.group.barrier(5, kPatience);  // on rank 0 it is the same one
                if (own.group.rank() != 0) return {};
                for (const char* part : {"timeout: rank 0 waited 0.0", "from rank 2 on channel 6",
                                         "ranks 1 and 2", "channel 5"}) {
                  if (said.find(part) == std::string::npos) return said;
                }
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricMemory, Row15PersistentIdsHaveOneAddressAndAreRefusedWhileLive) {
  Ranks ranks(
      2, with_memory(8, [](SymmetricRank& own) -> std::string {
        Buffer kept = own.heap.allocate(kBytes, {.group = {}, .persistent_id = 7});
        const std::byte* address = kept.data();
        const std::string live =
            thrown_by([&] { (void)own.heap.allocate(kBytes, {.group = {}, .persistent_id = 7}); });
        Buffer scoped = own.heap.allocate(16, {.group = "other", .persistent_id = 7});
        kept.reset();
        const std::string smaller =
            thrown_by([&] { (void)own.heap.allocate(16, {.group = {}, .persistent_id = 7}); });
        kept = own.heap.allocate(kBytes, {.group = {}, .persistent_id = 7});
        if (kept.data() != address) return "another address";
        if (live.find("still in use") == std::string::npos) return live;
        if (smaller.find("65536 bytes, and 16") == std::string::npos) return smaller;
        (void)own.group.rendezvous(kept, kPatience);
        return {};
      }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricMemory, Row16AnUnknownBackEndIsRefusedAndTheSameOneIsNot) {
  Ranks ranks(1, with_memory(8, [](SymmetricRank& own) -> std::string {
                if (own.heap.backends() != std::vector<std::string>{"host"}) return "others";
                HeapOptions options = SymmetricRank::heap_options();
                const Heap again(options);
                options.backend = "nonesuch";
                const std::string said = thrown_by([&] { const Heap none(options); });
                return said.find("nonesuch") == std::string::npos ? "instead: " + said : "";
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST_P(SymmetricMemory, Row22ACleanEndLeavesNothingBehind) {
  Ranks ranks(GetParam(), [](const BareRank& rank) -> std::string {
    for (int round = 0; round < 2; ++round) {
      SymmetricRank own(rank, kBytes);
      own.handle.all_reduce(100);
      own.group.leave(kPatience);
    }
    if (symmetric_mapping_count() != 0) return "memory is mapped";
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));  // they say so if descriptors are left
  EXPECT_THAT(ranks.left_in_store(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
