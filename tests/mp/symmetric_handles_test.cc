// SPDX-License-Identifier: Apache-2.0
//
// What groups and handles tell about ranks, and what one rank does alone with words and tables,
// with real processes on the host's memory and on simulated devices. On all kinds of memory:
// symmetric_program.cc and device_rank.cc.
#include <algorithm>
#include <atomic>
#include <thread>

#include "ashlar/deadline.h"
#include "mp/device_rank.h"

namespace ashlar::symm {
namespace {

constexpr size_t kBytes = 4096;

class SymmetricHandles : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricHandles, ::testing::Values(1, 2, 3, 5),
                         ::testing::PrintToStringParamName());

// A sub-group of a sub-group: numbers are still those of the ranks that joined.
TEST(SymmetricHandles, RanksOfSubGroupsKnowWhoTheyAreAmongAll) {
  Ranks ranks(4, with_memory(8, [](SymmetricRank& own) -> std::string {
                for (int rank = 0; rank < 4; ++rank) {
                  if (own.group.global_rank(rank) != rank) return "another rank of all";
                }
                if (!own.group.all_direct() || !own.handle.all_direct()) return "not direct";
                if (own.group.rank() == 0) return {};
                const auto below = [](const Group& group, std::vector<int> members) {
                  return group.sub_group({.name = text("of", members.size()),
                                          .ranks = std::move(members),
                                          .measure_thresholds = false,
                                          .timeout = kPatience});
                };
                Group three = below(own.group, {3, 1, 2});
                std::string wrong;
                if (three.global_rank(0) != 3 || three.global_rank(2) != 2) wrong += "of three; ";
                if (three.rank() != 1) {
                  Group pair = below(three, {2, 0});
                  const Handle paired = pair.rendezvous(own.buffer, kPatience);
                  if (paired.global_rank(0) != 2 || paired.global_rank(1) != 3) wrong += "of two; ";
                  if (paired.global_rank(paired.rank()) != own.group.rank()) wrong += "itself; ";
                  if (!paired.all_direct()) wrong += "not direct; ";
                  pair.leave(kPatience);
                }
                three.leave(kPatience);
                return wrong;
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// Kernels' tables of the host's memory are the host's own.
TEST(SymmetricHandles, TablesForKernelsAreThereForTheHostsMemoryToo) {
  Ranks ranks(2, with_memory(8, [](SymmetricRank& own) -> std::string {
                const Handle& handle = own.handle;
                for (int rank = 0; rank < 2; ++rank) {
                  if (handle.buffer_ptrs_on_device()[rank] != handle.buffer_ptrs()[rank]) {
                    return "another buffer";
                  }
                  if (handle.signal_pad_ptrs_on_device()[rank] != handle.signal_pad_ptrs()[rank]) {
                    return "another pad";
                  }
                }
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// A word that is acquired brings what was written before it was stored.
TEST_P(SymmetricHandles, StoredWordsRelease) {
  Ranks ranks(
      GetParam(), with_memory(kBytes, [](SymmetricRank& own) -> std::string {
        const Handle& handle = own.handle;
        const int count = handle.world_size();
        const int next = (handle.rank() + 1) % count;
        const auto flag = own.buffer.as<uint32_t>().subspan(100, 1);
        const Deadline deadline = Deadline::after(kPatience);
        for (uint32_t round = 1; round <= 500; ++round) {
          const auto theirs = handle.view<uint32_t>(next, 50, 50 * (round % 2));
          std::ranges::fill(theirs, round);
          handle.store_words(next, {.offset = 100, .value = round});
          const std::atomic_ref<uint32_t> told(flag[0]);
          while (told.load(std::memory_order_acquire) < round) {
            if (deadline.has_passed()) return "never told";
            std::this_thread::yield();
          }
          for (const uint32_t each : own.buffer.as<uint32_t>().subspan(50 * (round % 2), 50)) {
            if (each != round) return "told too early";
          }
          handle.barrier(0, kPatience);
        }
        return {};
      }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// --- on devices ---------------------------------------------------------------------------------

// A kernel of the user's, that knows nothing but where the table is.
TEST_P(SymmetricHandles, AKernelReachesEveryRankByTheTable) {
  Ranks ranks(GetParam(), [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(rank.world_size);
    DeviceRank own(rank, *machine);
    const DeviceAddress table(reinterpret_cast<uint64_t>(own.handle.buffer_ptrs_on_device()));
    const auto count = static_cast<size_t>(rank.world_size);
    const auto kernel = [=, me = rank.rank](const sim::DeviceMemory& memory) -> Status {
      const Result<std::span<uint64_t>> buffers = memory.view<uint64_t>(table, count);
      if (!buffers.ok()) return buffers.status();
      for (size_t each = 0; each < count; ++each) {
        const uint64_t place = (*buffers)[each] + 4 * static_cast<uint64_t>(me);
        const Result<std::span<int>> word = memory.view<int>(DeviceAddress(place), 1);
        if (!word.ok()) return word.status();
        (*word)[0] = 30 + me;
      }
      return {};
    };
    if (!machine->launch(own.at, kDefaultStream, kernel).ok()) return "no kernel";
    own.group.finish(kDefaultStream);
    own.group.barrier(0, kPatience);
    const std::vector<int> found = own.read<int>(count);
    for (size_t each = 0; each < count; ++each) {
      if (found[each] != 30 + static_cast<int>(each)) return "another kernel's word";
    }
    own.group.barrier(0, kPatience);
    own.group.leave(kPatience);
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// More of them than fit the first piece of memory, and again when they are gone.
TEST(SymmetricHandles, ThereAreAsManyTablesAsHandles) {
  Ranks ranks(1, [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(1);
    DeviceRank own(rank, *machine);
    const size_t first = own.device().memory_stats()->free_bytes;
    for (int round = 0; round < 2; ++round) {
      std::vector<Handle> handles;
      std::vector<std::byte* const*> tables;
      for (int i = 0; i < 20'000; ++i) {
        handles.push_back(own.group.rendezvous(own.buffer.data() + i % 100, kPatience));
        tables.push_back(handles.back().buffer_ptrs_on_device());
      }
      std::ranges::sort(tables);
      if (std::ranges::adjacent_find(tables) != tables.end()) return "one table for two";
    }
    const size_t used = first - own.device().memory_stats()->free_bytes;
    own.group.leave(kPatience);
    return used == (size_t{4} << 20) ? "" : text(used, " bytes for tables");
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// What was made stays; what was not is refused, and all goes without a word.
TEST(SymmetricHandles, Row22TablesEndWithALostDeviceAsWithAnyOther) {
  Ranks ranks(1, [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(1);
    DeviceRank own(rank, *machine);
    std::byte* const* made = own.handle.buffer_ptrs_on_device();
    machine->lose(own.at, Status::device_lost("test", 1, "lost on purpose"));
    if (own.handle.buffer_ptrs_on_device() != made) return "another table";
    std::string said = thrown_by([&] { (void)own.scratch_handle.buffer_ptrs_on_device(); });
    if (said.find("lost on purpose") == std::string::npos) return said;
    said = thrown_by([&] { own.handle.store_words(0, {}, kDefaultStream); });
    if (said.find("lost on purpose") == std::string::npos) return said;
    return own.group.failure().ok() ? "the group has not failed" : "";
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// A store comes behind what is in the stream, and the call does not wait for that; a handle does.
TEST(SymmetricHandles, Row09WordsAreStoredInTheStreamsOrder) {
  Ranks ranks(1, [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(1);
    DeviceRank own(rank, *machine);
    const StreamId stream = *own.device().create_stream();
    std::atomic<bool> may_go = false;
    const auto wait = [&](const sim::DeviceMemory&) -> Status {
      while (!may_go) std::this_thread::yield();
      return {};
    };
    own.write(std::vector<int>{1});
    if (!machine->launch(own.at, stream, wait).ok()) return "no kernel";
    own.handle.store_words(0, {.value = 2}, stream);
    const int before = own.read<int>(1)[0];
    may_go = true;
    own.group.finish(stream);
    const int after = own.read<int>(1)[0];
    own.group.leave(kPatience);
    return before == 1 && after == 2 ? "" : text(before, " and then ", after);
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
