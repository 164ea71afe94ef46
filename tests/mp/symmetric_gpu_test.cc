// SPDX-License-Identifier: Apache-2.0
//
// Symmetric memory on a GPU that several processes share: allocation and copies. Operations that
// need kernels are in symmetric_kernels_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "base/units.h"
#include "mp/harness/gpu_rank.h"

namespace ashlar::symm {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kGpuBytes = 3 * kMiB;

struct GpuRank {
  GpuRank(const RankSpec& rank, Device& device, bool may_share = true)
      : heap(heap_options(device)),
        group(Group::join(heap, rank.store, gpu_group_options(rank, may_share))),
        buffer(heap.allocate(kGpuBytes)),
        handle(group.rendezvous(buffer, kTestTimeout)) {}

  static HeapOptions heap_options(Device& device) {
    HeapOptions options = SymmetricRank::heap_options();
    options.device = &device;
    return options;
  }
  Heap heap;
  Group group;
  SymmetricBuffer buffer;
  Handle handle;
};

// Does a rendezvous, which serves as a barrier that needs no kernels.
void rendezvous_all(GpuRank& own) {
  const SymmetricBuffer temporary = own.heap.allocate(1);
  (void)own.group.rendezvous(temporary, kTestTimeout);
}

class SymmetricGpu : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricGpu, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricGpu, CopiesBetweenRanksOnOneDevice) {
  RankProcesses ranks(GetParam(), on_gpu([](const RankSpec& rank, Device& device) -> std::string {
                        GpuRank own(rank, device);
                        const int next = (rank.rank + 1) % rank.world_size;
                        const int before = (rank.rank + rank.world_size - 1) % rank.world_size;
                        std::vector<int> values(kGpuBytes / sizeof(int));
                        std::iota(values.begin(), values.end(), 1000000 * rank.rank);
                        own.handle.put(next, std::as_bytes(std::span(values)));
                        rendezvous_all(own);
                        std::vector<int> found(values.size());
                        own.handle.get(rank.rank, std::as_writable_bytes(std::span(found)));
                        std::iota(values.begin(), values.end(), 1000000 * before);
                        if (found != values) return "wrong data from the previous rank";
                        own.handle.get(next, std::as_writable_bytes(std::span(found)));
                        std::iota(values.begin(), values.end(), 1000000 * rank.rank);
                        if (found != values) return "wrong data from the next rank";
                        rendezvous_all(own);
                        // Buffers of a pool work in the same way.
                        SymmetricPool pool(own.heap, {.name = "pool", .segment_bytes = 4 * kMiB});
                        const SymmetricBuffer first = pool.allocate(1000);
                        const SymmetricBuffer second = pool.allocate(1000);
                        const Handle handle = own.group.rendezvous(second, kTestTimeout);
                        handle.put(next, std::as_bytes(std::span(&rank.rank, 1)), 8);
                        rendezvous_all(own);
                        int mark = -1;
                        handle.get(rank.rank, std::as_writable_bytes(std::span(&mark, 1)), 8);
                        rendezvous_all(own);
                        own.group.leave(kTestTimeout);
                        return mark == before ? "" : "wrong mark";
                      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST(SymmetricGpu, RejectsSharedDeviceUnlessAllowed) {
  RankProcesses ranks(2, on_gpu([](const RankSpec& rank, Device& device) -> std::string {
                        return error_message([&] { const GpuRank own(rank, device, false); });
                      }));
  EXPECT_THAT(gpu_results(ranks),
              Each(AllOf(HasSubstr("ranks 0 and 1"), HasSubstr("the same device"))));
}

// There are no kernels for AMD devices.
TEST(SymmetricHip, RejectsOperationsThatNeedKernels) {
  RankProcesses ranks(1, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<DeviceSet> devices = *try_open_hip({.library = ASHLAR_HIP_STANDIN});
    GpuRank own(rank, devices->device(DeviceIndex(0)));
    const std::string message = error_message([&] { own.handle.all_reduce(1); }) +
                                error_message([&] { own.group.barrier(); }) +
                                error_message([&] { (void)own.handle.counter_value(0); }) +
                                error_message([&] { own.handle.store_words(0, {}); }) +
                                error_message([&] { own.handle.multimem_all_reduce(1); });
    own.group.leave(kTestTimeout);
    return message;
  });
  EXPECT_THAT(gpu_results(ranks),
              Each(AllOf(HasSubstr("no kernels for the collectives of back end hip"),
                         HasSubstr("no kernels for the signals and barriers"),
                         HasSubstr("no kernels for the counters"),
                         HasSubstr("no kernels for the stores of words"),
                         HasSubstr("this memory has no multicast: "))));
}

// The memory of a killed rank stays valid while another rank has it mapped.
TEST(SymmetricGpu, KeepsMappedMemoryOfKilledRank) {
  RankProcesses ranks(
      2, on_gpu([](const RankSpec& rank, Device& device) -> std::string {
        GpuRank own(rank, device);
        const int mark = 40 + rank.rank;
        own.handle.put(rank.rank, std::as_bytes(std::span(&mark, 1)));
        rendezvous_all(own);
        if (rank.rank == 1) ::kill(::getpid(), SIGKILL);
        while (own.group.failure().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        // The handle fails because the group has failed, but the address is still valid.
        int found = 0;
        const DeviceAddress at(reinterpret_cast<uint64_t>(own.handle.buffer_ptrs()[1]));
        if (!device.copy_to_host(&found, at, sizeof(found), kDefaultStream).ok()) return "no copy";
        if (!device.synchronize_stream(kDefaultStream).ok()) return "no end";
        return found == 41 ? "" : "gone";
      }));
  const std::vector<std::string> results = gpu_results(ranks);
  EXPECT_EQ(results[0], "");
  EXPECT_EQ(results[1], "killed");
}

}  // namespace
}  // namespace ashlar::symm
