// SPDX-License-Identifier: Apache-2.0
//
// Symmetric memory on a vendor's device, with real processes, several on one device: memory and
// copies. What needs kernels is in symmetric_kernels_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "base/units.h"
#include "mp/gpu_rank.h"

namespace ashlar::symm {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kBytes = 3 * kMiB;

struct GpuRank {
  GpuRank(const BareRank& rank, Device& device, bool may_share = true)
      : heap(heap_options(device)),
        group(Group::join(heap, rank.store, gpu_group_options(rank, may_share))),
        buffer(heap.allocate(kBytes)),
        handle(group.rendezvous(buffer, kPatience)) {}

  static HeapOptions heap_options(Device& device) {
    HeapOptions options = SymmetricRank::heap_options();
    options.device = &device;
    return options;
  }
  Heap heap;
  Group group;
  Buffer buffer;
  Handle handle;
};

// Ranks take steps together without a barrier of the device's: a rendezvous is one.
void meet(GpuRank& own) {
  const Buffer passing = own.heap.allocate(1);
  (void)own.group.rendezvous(passing, kPatience);
}

class SymmetricGpu : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricGpu, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricGpu, RanksOfOneDeviceReachEachOthersMemoryByCopies) {
  Ranks ranks(GetParam(), on_gpu([](const BareRank& rank, Device& device) -> std::string {
                GpuRank own(rank, device);
                const int next = (rank.rank + 1) % rank.world_size;
                const int before = (rank.rank + rank.world_size - 1) % rank.world_size;
                std::vector<int> values(kBytes / sizeof(int));
                std::iota(values.begin(), values.end(), 1000000 * rank.rank);
                own.handle.put(next, std::as_bytes(std::span(values)));
                meet(own);
                std::vector<int> found(values.size());
                own.handle.get(rank.rank, std::as_writable_bytes(std::span(found)));
                std::iota(values.begin(), values.end(), 1000000 * before);
                if (found != values) return "not what the one before put";
                own.handle.get(next, std::as_writable_bytes(std::span(found)));
                std::iota(values.begin(), values.end(), 1000000 * rank.rank);
                if (found != values) return "not what the next one has";
                meet(own);
                // A pool's buffers are as reachable.
                Pool pool(own.heap, {.name = "pool", .segment_bytes = 4 * kMiB});
                const Buffer first = pool.allocate(1000);
                const Buffer second = pool.allocate(1000);
                const Handle handle = own.group.rendezvous(second, kPatience);
                handle.put(next, std::as_bytes(std::span(&rank.rank, 1)), 8);
                meet(own);
                int mark = -1;
                handle.get(rank.rank, std::as_writable_bytes(std::span(&mark, 1)), 8);
                meet(own);
                own.group.leave(kPatience);
                return mark == before ? "" : "another's mark";
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(IsEmpty()));
}

TEST(SymmetricGpu, RanksOfOneDeviceAreRefusedByItsUuidUnlessTheyMay) {
  Ranks ranks(2, on_gpu([](const BareRank& rank, Device& device) -> std::string {
                return thrown_by([&] { const GpuRank own(rank, device, false); });
              }));
  EXPECT_THAT(outcomes_of(ranks), Each(AllOf(HasSubstr("ranks 0 and 1"), HasSubstr("one device"))));
}

// AMD's devices have none yet.
TEST(SymmetricHip, Row18WhatNeedsKernelsSaysThatThereAreNone) {
  Ranks ranks(1, [](const BareRank& rank) -> std::string {
    const std::unique_ptr<DeviceSet> devices = *open_hip({.library = ASHLAR_HIP_STANDIN});
    GpuRank own(rank, devices->device(DeviceIndex(0)));
    const std::string said = thrown_by([&] { own.handle.all_reduce(1); }) +
                             thrown_by([&] { own.group.barrier(); }) +
                             thrown_by([&] { (void)own.handle.counter_value(0); }) +
                             thrown_by([&] { own.handle.store_words(0, {}); }) +
                             thrown_by([&] { own.handle.multimem_all_reduce(1); });
    own.group.leave(kPatience);
    return said;
  });
  EXPECT_THAT(outcomes_of(ranks),
              Each(AllOf(HasSubstr("no kernels for the collectives of back end hip"),
                         HasSubstr("no kernels for the signals and barriers"),
                         HasSubstr("no kernels for the counters"),
                         HasSubstr("no kernels for the stores of words"),
                         HasSubstr("this memory has no multicast: "))));
}

// The owner is gone, killed; its memory is not, while another has it mapped.
TEST(SymmetricGpu, Row05MemoryOfARankThatWasKilledStaysWhileItIsMapped) {
  Ranks ranks(2, on_gpu([](const BareRank& rank, Device& device) -> std::string {
                GpuRank own(rank, device);
                const int mark = 40 + rank.rank;
                own.handle.put(rank.rank, std::as_bytes(std::span(&mark, 1)));
                meet(own);
                if (rank.rank == 1) ::kill(::getpid(), SIGKILL);
                while (own.group.failure().ok())
                  std::this_thread::sleep_for(std::chrono::milliseconds(5));
                // The handle refuses, since the group has failed; the address is as good as it was.
                int found = 0;
                const DeviceAddress at(reinterpret_cast<uint64_t>(own.handle.buffer_ptrs()[1]));
                if (!device.copy_to_host(&found, at, sizeof(found), kDefaultStream).ok())
                  return "no copy";
                if (!device.synchronize_stream(kDefaultStream).ok()) return "no end";
                return found == 41 ? "" : "gone";
              }));
  const std::vector<std::string> said = outcomes_of(ranks);
  EXPECT_EQ(said[0], "");
  EXPECT_EQ(said[1], "killed");
}

}  // namespace
}  // namespace ashlar::symm
