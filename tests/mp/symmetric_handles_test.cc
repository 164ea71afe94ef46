// SPDX-License-Identifier: Apache-2.0
//
// Rank translation, address tables and store_words, on host memory and simulated devices, in
// several processes. Checks for every kind of memory are in symmetric_program.cc and
// device_rank.cc.
#include <algorithm>
#include <atomic>
#include <thread>

#include "ashlar/deadline.h"
#include "mp/harness/device_rank.h"

namespace ashlar::symm {
namespace {

constexpr size_t kHandleBytes = 4096;

class SymmetricHandles : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricHandles, ::testing::Values(1, 2, 3, 5),
                         ::testing::PrintToStringParamName());

// global_rank refers to the group that was joined, even in a sub-group of a sub-group.
TEST(SymmetricHandles, TranslateRanksOfNestedSubGroups) {
  RankProcesses ranks(4, with_memory(8, [](SymmetricRank& own) -> std::string {
                        for (int rank = 0; rank < 4; ++rank) {
                          if (own.group.global_rank(rank) != rank) return "wrong global rank";
                        }
                        if (!own.group.all_direct() || !own.handle.all_direct())
                          return "not direct";
                        if (own.group.rank() == 0) return {};
                        const auto below = [](const Group& group, std::vector<int> members) {
                          return group.sub_group({.name = text("of", members.size()),
                                                  .ranks = std::move(members),
                                                  .measure_thresholds = false,
                                                  .timeout = kTestTimeout});
                        };
                        Group three = below(own.group, {3, 1, 2});
                        std::string wrong;
                        if (three.global_rank(0) != 3 || three.global_rank(2) != 2)
                          wrong += "wrong ranks in the group of three; ";
                        if (three.rank() != 1) {
                          Group pair = below(three, {2, 0});
                          const Handle paired = pair.rendezvous(own.buffer, kTestTimeout);
                          if (paired.global_rank(0) != 2 || paired.global_rank(1) != 3)
                            wrong += "wrong ranks in the group of two; ";
                          if (paired.global_rank(paired.rank()) != own.group.rank())
                            wrong += "itself; ";
                          if (!paired.all_direct()) wrong += "not all direct; ";
                          pair.leave(kTestTimeout);
                        }
                        three.leave(kTestTimeout);
                        return wrong;
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// For host memory, the device tables are the host tables.
TEST(SymmetricHandles, ProvideAddressTablesForHostMemory) {
  RankProcesses ranks(
      2, with_memory(8, [](SymmetricRank& own) -> std::string {
        const Handle& handle = own.handle;
        for (int rank = 0; rank < 2; ++rank) {
          if (handle.buffer_ptrs_on_device()[rank] != handle.buffer_ptrs()[rank]) {
            return "wrong buffer";
          }
          if (handle.signal_pad_ptrs_on_device()[rank] != handle.signal_pad_ptrs()[rank]) {
            return "wrong pad";
          }
        }
        return {};
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// Data written before a word is stored is visible after an acquire load of that word.
TEST_P(SymmetricHandles, StoreWordsIsARelease) {
  RankProcesses ranks(
      GetParam(), with_memory(kHandleBytes, [](SymmetricRank& own) -> std::string {
        const Handle& handle = own.handle;
        const int count = handle.world_size();
        const int next = (handle.rank() + 1) % count;
        const auto flag = own.buffer.as<uint32_t>().subspan(100, 1);
        const Deadline deadline = Deadline::after(kTestTimeout);
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
            if (each != round) return "word arrived before its data";
          }
          handle.barrier(0, kTestTimeout);
        }
        return {};
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// A user's kernel gets only the address of the table.
TEST_P(SymmetricHandles, KernelReachesEveryRankByTable) {
  RankProcesses ranks(GetParam(), [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    const DeviceAddress table(reinterpret_cast<uint64_t>(own.handle.buffer_ptrs_on_device()));
    const auto count = static_cast<size_t>(rank.world_size);
    const auto kernel = [=, me = rank.rank](const sim::DeviceMemory& memory) -> Status {
      const Result<std::span<uint64_t>> buffers = memory.try_view<uint64_t>(table, count);
      if (!buffers.ok()) return buffers.status();
      for (size_t each = 0; each < count; ++each) {
        const uint64_t place = (*buffers)[each] + 4 * static_cast<uint64_t>(me);
        const Result<std::span<int>> word = memory.try_view<int>(DeviceAddress(place), 1);
        if (!word.ok()) return word.status();
        (*word)[0] = 30 + me;
      }
      return {};
    };
    if (!machine->try_launch(own.device_index, kDefaultStream, kernel).ok()) return "launch failed";
    own.group.finish(kDefaultStream);
    own.group.barrier(0, kTestTimeout);
    const std::vector<int> found = own.read<int>(count);
    for (size_t each = 0; each < count; ++each) {
      if (found[each] != 30 + static_cast<int>(each)) return "wrong word";
    }
    own.group.barrier(0, kTestTimeout);
    own.group.leave(kTestTimeout);
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// Two rounds each create more tables than fit in the first allocation of tables. The second round
// must reuse the memory of the first.
TEST(SymmetricHandles, HaveOneTablePerHandle) {
  RankProcesses ranks(1, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(1);
    SimDeviceRank own(rank, *machine);
    const size_t first = own.device().memory_stats()->free_bytes;
    for (int round = 0; round < 2; ++round) {
      std::vector<Handle> handles;
      std::vector<std::byte* const*> tables;
      for (int i = 0; i < 20'000; ++i) {
        handles.push_back(own.group.rendezvous(own.buffer.data() + i % 100, kTestTimeout));
        tables.push_back(handles.back().buffer_ptrs_on_device());
      }
      std::ranges::sort(tables);
      if (std::ranges::adjacent_find(tables) != tables.end()) return "two handles share a table";
    }
    const size_t used = first - own.device().memory_stats()->free_bytes;
    own.group.leave(kTestTimeout);
    return used == (size_t{4} << 20) ? "" : text(used, " bytes used for tables");
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// After a device loss, existing tables stay valid, new tables cannot be created, and destruction
// succeeds.
TEST(SymmetricHandles, ReleaseTablesAfterDeviceLoss) {
  RankProcesses ranks(1, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(1);
    SimDeviceRank own(rank, *machine);
    std::byte* const* made = own.handle.buffer_ptrs_on_device();
    machine->lose(own.device_index, Status::device_lost("test", 1, "lost on purpose"));
    if (own.handle.buffer_ptrs_on_device() != made) return "wrong table";
    std::string message = error_message([&] { (void)own.scratch_handle.buffer_ptrs_on_device(); });
    if (message.find("lost on purpose") == std::string::npos) return message;
    message = error_message([&] { own.handle.store_words(0, {}, kDefaultStream); });
    if (message.find("lost on purpose") == std::string::npos) return message;
    return own.group.failure().ok() ? "the group has not failed" : "";
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// With a stream, store_words is asynchronous and ordered after earlier work in the stream.
TEST(SymmetricHandles, StoreWordsInStreamOrder) {
  RankProcesses ranks(1, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(1);
    SimDeviceRank own(rank, *machine);
    const StreamId stream = *own.device().create_stream();
    std::atomic<bool> may_finish = false;
    const auto wait = [&](const sim::DeviceMemory&) -> Status {
      while (!may_finish) std::this_thread::yield();
      return {};
    };
    own.write(std::vector<int>{1});
    if (!machine->try_launch(own.device_index, stream, wait).ok()) return "launch failed";
    own.handle.store_words(0, {.value = 2}, stream);
    const int before = own.read<int>(1)[0];
    may_finish = true;
    own.group.finish(stream);
    const int after = own.read<int>(1)[0];
    own.group.leave(kTestTimeout);
    return before == 1 && after == 2 ? "" : text(before, " before and ", after, " after");
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
