// SPDX-License-Identifier: Apache-2.0
//
// Symmetric memory on simulated devices, in several processes: behaviour that differs for memory
// that the host cannot access.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <random>
#include <thread>

#include "base/align.h"
#include "mp/harness/device_rank.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SymmetricDevices : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricDevices, ::testing::Values(1, 2, 3, 4),
                         ::testing::PrintToStringParamName());

using DeviceBody = std::function<std::string(SimDeviceRank& own)>;

// Runs each rank on its own device, and expects that all memory of the device is free afterwards.
RankMain on_devices(const DeviceBody& body) {
  return [body](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    std::string wrong;
    {
      SimDeviceRank own(rank, *machine);
      wrong = body(own);
      if (wrong.empty()) own.group.leave(kTestTimeout);
    }
    Device& device = machine->device(DeviceIndex(static_cast<uint64_t>(rank.rank)));
    const Result<DeviceMemoryStats> use = device.memory_stats();
    if (use->free_bytes != use->total_bytes) wrong += " [leaked device memory]";
    return wrong;
  };
}

TEST_P(SymmetricDevices, RunsEveryOperationWithAndWithoutStream) {
  RankProcesses ranks(GetParam(),
                      on_devices([](SimDeviceRank& own) { return run_device_program(own); }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST_P(SymmetricDevices, PadPrecedesAlignedBufferAndIsZero) {
  RankProcesses ranks(GetParam(), on_devices([](SimDeviceRank& own) -> std::string {
                        const Handle& handle = own.handle;
                        for (int rank = 0; rank < handle.world_size(); ++rank) {
                          std::byte* pad = handle.signal_pad_ptrs()[rank];
                          std::byte* buffer = handle.buffer_ptrs()[rank];
                          if (buffer != pad + 9216) return "wrong layout";
                          if (!is_aligned(reinterpret_cast<uintptr_t>(buffer), 128))
                            return "not aligned";
                          const auto words =
                              own.machine.memory(own.device_index)
                                  .try_view<const uint32_t>(
                                      DeviceAddress(reinterpret_cast<uint64_t>(pad)), 9216 / 4);
                          if (!words.ok()) return words.status().message();
                          for (const uint32_t each : *words) {
                            if (each != 0) return "a pad is not zero";
                          }
                        }
                        own.group.barrier(0, kTestTimeout);
                        return {};
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// The same numbers in host and in device memory give bitwise equal results on every rank.
TEST_P(SymmetricDevices, ResultsEqualHostResultsBitwise) {
  RankProcesses ranks(
      GetParam(), on_devices([](SimDeviceRank& own) -> std::string {
        const size_t words = 4000;
        HostReference reference(own, 4 * words);
        const Handle& host = reference.handle;
        SymmetricBuffer& buffer = reference.buffer;
        std::mt19937 random(static_cast<unsigned>(77 + own.group.rank()));
        for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
          for (const bool one_shot : {true, false}) {
            std::vector<uint32_t> bits(words);
            for (uint32_t& each : bits) each = static_cast<uint32_t>(random());
            std::memcpy(buffer.data(), bits.data(), 4 * words);
            own.write(bits);
            own.group.barrier(0, kTestTimeout);
            const auto count = static_cast<int64_t>(4 * words / element_bytes(type));
            CollectiveOptions options;
            options.timeout = kTestTimeout;
            for (const Handle& each : {host, own.handle}) {
              if (one_shot) each.one_shot_all_reduce(count, {type, ReduceOp::kSum}, options);
              if (!one_shot) each.two_shot_all_reduce(count, {type, ReduceOp::kSum}, options);
            }
            const std::vector<uint32_t> there = own.read<uint32_t>(words);
            if (std::memcmp(buffer.data(), there.data(), 4 * words) != 0) return "others";
          }
        }
        reference.group.leave(kTestTimeout);
        return {};
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// Runs collectives between kernels of the same stream, without synchronization on the host.
TEST_P(SymmetricDevices, RunsWorkInStreamOrder) {
  RankProcesses ranks(
      GetParam(), on_devices([](SimDeviceRank& own) -> std::string {
        const DeviceAddress at(reinterpret_cast<uint64_t>(own.buffer.data()));
        const StreamId one = *own.device().create_stream();
        const StreamId other = *own.device().create_stream();
        const auto add = [&](StreamId stream, int amount) {
          return own.machine.try_launch(own.device_index, stream,
                                        [at, amount](const sim::DeviceMemory& memory) -> Status {
                                          // The kernel is slow, so that a missing dependency
                                          // changes the result.
                                          std::this_thread::sleep_for(milliseconds(5));
                                          (*memory.try_view<int>(at, 1))[0] += amount;
                                          return {};
                                        });
        };
        own.write(std::vector<int>{0});
        own.group.barrier(0, kTestTimeout);
        CollectiveOptions options;
        options.timeout = kTestTimeout;
        int expected = 0;
        const int count = own.group.world_size();
        for (int round = 0; round < 4; ++round) {
          // Ranks use different streams. Calls are matched in the order in which they are made.
          const StreamId stream = (round + own.group.rank()) % 2 == 0 ? one : other;
          if (!add(stream, own.group.rank() + 1).ok()) return "launch failed";
          options.stream = stream;
          own.handle.all_reduce(1, {ElementType::kI32, ReduceOp::kSum}, options);
          expected = expected * count + count * (count + 1) / 2;
          if (round == 3) break;
          // The next kernel runs in the other stream and waits for the work in this stream.
          const EventId event = *own.device().create_event();
          const StreamId next = stream == one ? other : one;
          if (!own.device().record_event(event, stream).ok()) return "no event";
          if (!own.device().wait_event(next, event).ok()) return "no wait";
          if (!own.device().destroy_event(event).ok()) return "no end";
        }
        own.group.finish(one);
        own.group.finish(other);
        const int found = own.read<int>(1)[0];
        own.group.barrier(0, kTestTimeout);
        return found == expected ? "" : text("found ", found, ", expected ", expected);
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// Each rank is slow in a different stream. Without a group-wide order, the ranks would run the
// operations in different orders.
TEST(SymmetricDevices, KeepsGroupOrderAcrossStreams) {
  RankProcesses ranks(
      2, on_devices([](SimDeviceRank& own) -> std::string {
        const std::array streams{*own.device().create_stream(), *own.device().create_stream()};
        const auto sleep = [](const sim::DeviceMemory&) -> Status {
          std::this_thread::sleep_for(milliseconds(50));
          return {};
        };
        const auto late = static_cast<size_t>(own.group.rank());
        if (!own.machine.try_launch(own.device_index, streams[late], sleep).ok())
          return "launch failed";
        own.write(std::vector<int>(100, own.group.rank() + 1));
        CollectiveOptions options;
        options.timeout = kTestTimeout;
        for (const StreamId each : streams) {
          options.stream = each;
          own.handle.all_reduce(each == streams[0] ? 100 : 50, {ElementType::kI32, ReduceOp::kSum},
                                options);
        }
        for (const StreamId each : streams) own.group.finish(each);
        const std::vector<int> found = own.read<int>(100);
        own.group.barrier(0, kTestTimeout);
        return found[0] == 6 && found[99] == 3 ? "" : "wrong order";
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricDevices, ReportsStreamTimeoutAndContinues) {
  RankProcesses ranks(2, on_devices(check_stream_timeout));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricDevices, ChecksArgumentsBeforeLaunch) {
  RankProcesses ranks(
      1, on_devices([](SimDeviceRank& own) -> std::string {
        if (std::string wrong = check_invalid_arguments(own); !wrong.empty()) return wrong;
        const auto throws_invalid_argument = [](const std::string& refusal) {
          return refusal.find("atomics are available") != std::string::npos;
        };
        if (!throws_invalid_argument(error_message([&] { own.handle.fetch(0, {}); })))
          return "fetch";
        if (!throws_invalid_argument(error_message([&] { own.handle.post(0, AtomicOp{}); })))
          return "post";
        return {};
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricDevices, RejectsSharedDeviceUnlessAllowed) {
  for (const bool may_share : {false, true}) {
    RankProcesses ranks(2, [may_share](const RankSpec& rank) -> std::string {
      const std::unique_ptr<sim::Machine> machine = make_machine(2);
      GroupOptions options = SymmetricRank::group_options(rank);
      options.may_share_device = may_share;
      std::string message;
      try {
        SimDeviceRank own(rank, *machine, 1, options);
        message = run_device_program(own);
        own.group.leave(kTestTimeout);
      } catch (const InvalidArgument& refused) {
        return refused.what();
      }
      return message;
    });
    if (may_share) {
      EXPECT_THAT(ranks.results(), Each(IsEmpty()));
    } else {
      EXPECT_THAT(ranks.results(),
                  Each(AllOf(HasSubstr("ranks 0 and 1"), HasSubstr("the same device"),
                             HasSubstr("may_share_device"))));
    }
  }
}

TEST(SymmetricDevices, RejectsMixOfHostAndDeviceMemory) {
  RankProcesses ranks(2, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(1);
    HeapOptions options = SymmetricRank::heap_options();
    if (rank.rank == 1) options.device = &machine->device(DeviceIndex(0));
    return error_message([&] {
      const Heap heap(options);
      (void)Group::join(heap, rank.store, SymmetricRank::group_options(rank));
    });
  });
  EXPECT_THAT(ranks.results(), Each(HasSubstr("rank 0: host, rank 1: sim")));
}

TEST(SymmetricDevices, RejectsUnusableMachines) {
  RankProcesses ranks(1, [](const RankSpec& rank) -> std::string {
    sim::Options seeded;
    seeded.seed = 1;
    sim::Options bookkeeping;
    bookkeeping.backing = sim::Backing::kBookkeeping;
    std::string message;
    for (const sim::Options& each : {seeded, bookkeeping}) {
      const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create(each);
      HeapOptions options = SymmetricRank::heap_options();
      options.device = &machine->device(DeviceIndex(0));
      message += error_message([&] {
        const Heap heap(options);
        (void)Group::join(heap, rank.store, SymmetricRank::group_options(rank));
      });
    }
    return message;
  });
  EXPECT_THAT(ranks.results(),
              Each(AllOf(HasSubstr("make it without a seed"),
                         HasSubstr("no memory that can be shared with other processes"))));
}

TEST(SymmetricDevices, OwnerMayFreeFirst) {
  RankProcesses ranks(2, on_devices([](SimDeviceRank& own) -> std::string {
                        own.write(std::vector<int>(100, 7 + own.group.rank()));
                        own.group.barrier(0, kTestTimeout);
                        if (own.group.rank() == 0) own.buffer.reset();
                        own.group.barrier(0, kTestTimeout);
                        const auto theirs = SimDeviceRank::read_of<int>(own.handle, 0, 100);
                        own.group.barrier(0, kTestTimeout);
                        return theirs == std::vector<int>(100, 7) ? "" : "lost";
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricDevices, PoolsOfDeviceMemoryHaveEqualLayout) {
  RankProcesses ranks(
      3, on_devices([](SimDeviceRank& own) -> std::string {
        SymmetricPool pool(own.heap, {.name = "pool", .segment_bytes = size_t{4} << 20});
        std::vector<SymmetricBuffer> live;
        for (int round = 0; round < 12; ++round) {
          if (live.size() > 3) live.erase(live.begin() + round % 3);
          live.push_back(pool.allocate(static_cast<size_t>(1000 * (round + 1))));
          const Handle handle = own.group.rendezvous(live.back(), kTestTimeout);
          const int next = (own.group.rank() + 1) % 3;
          const int mark = 10 * round + own.group.rank();
          handle.put(next, std::as_bytes(std::span(&mark, 1)));
          handle.barrier(0, kTestTimeout);
          const int found = SimDeviceRank::read_of<int>(handle, own.group.rank(), 1)[0];
          if (found != 10 * round + (own.group.rank() + 2) % 3) return "elsewhere";
          handle.barrier(0, kTestTimeout);
        }
        return pool.stats().segment_count == 1 ? "" : "wrong number of segments";
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// A call returns when the device is lost. Its kernel, which still waits for rank 1, ends with the
// group.
TEST(SymmetricDevices, LostDeviceEndsCallsAndKernels) {
  RankProcesses ranks(2, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    if (rank.rank == 1) {
      return error_message([&] { own.handle.barrier(0, Timeout(0)); });
    }
    std::thread loser([&] {
      std::this_thread::sleep_for(milliseconds(50));
      machine->lose(own.device_index, Status::device_lost("test", 1, "lost on purpose"));
    });
    const std::string message = error_message([&] { own.handle.wait_signal(1, 3, Timeout(0)); });
    loser.join();
    return message;
  });
  const std::vector<std::string> results = ranks.results();
  EXPECT_THAT(results[0], HasSubstr("lost on purpose"));
  EXPECT_THAT(results[1], HasSubstr("rank 0"));
}

// Each device has its own heap, and each heap its own ids.
TEST(SymmetricDevices, PersistentIdsAreScopedByDevice) {
  const std::unique_ptr<sim::Machine> machine = make_machine(2);
  const auto heap_on = [&](uint64_t index) {
    HeapOptions options = SymmetricRank::heap_options();
    options.device = &machine->device(DeviceIndex(index));
    return Heap(options);
  };
  Heap heaps[] = {heap_on(0), heap_on(1)};
  const AllocateOptions seventh{.group = {}, .persistent_id = 7};
  SymmetricBuffer first = heaps[0].allocate(4096, seventh);
  SymmetricBuffer second = heaps[1].allocate(128, seventh);  // the id is free in this heap
  const std::byte* const addresses[] = {first.data(), second.data()};
  EXPECT_NE(addresses[0], addresses[1]);
  for (size_t i = 0; i < 2; ++i) {
    const auto at = DeviceAddress(reinterpret_cast<uint64_t>(addresses[i]));
    EXPECT_EQ(machine->device(DeviceIndex(i)).describe(at)->device, DeviceIndex(i));
  }
  second.reset();
  EXPECT_THAT(error_message([&] { (void)heaps[0].allocate(4096, seventh); }), HasSubstr("in use"));
  second = heaps[1].allocate(128, seventh);
  first.reset();
  first = heaps[0].allocate(4096, seventh);
  EXPECT_EQ(first.data(), addresses[0]);
  EXPECT_EQ(second.data(), addresses[1]);
}

TEST(SymmetricDevices, PeerDeathEndsWorkInStreams) {
  RankProcesses ranks(3, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    const StreamId stream = *own.device().create_stream();
    if (rank.rank == 1) {
      ::kill(::getpid(), SIGKILL);
    }
    CollectiveOptions options;
    options.stream = stream;
    own.handle.all_reduce(100, {}, options);  // never completes
    const std::string message = error_message([&] { own.group.finish(stream); });
    const std::string again = error_message([&] { own.handle.barrier(0); });
    return message == again ? message : message + " [then: " + again + "]";
  });
  std::vector<std::string> results = ranks.results();
  EXPECT_EQ(results[1], "killed");
  EXPECT_THAT(results[0], AllOf(HasSubstr("rank 1"), ::testing::Not(HasSubstr("["))));
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace ashlar::symm
