// SPDX-License-Identifier: Apache-2.0
//
// Multimem operations on simulated devices, which emulate multicast, in several processes: results
// and argument checks. Setup is tested in symmetric_multicast_test.cc, multicast of CUDA devices in
// symmetric_gpu_multicast_test.cc.
#include <algorithm>
#include <limits>

#include "mp/harness/device_rank.h"
#include "mp/harness/multimem_program.h"

namespace ashlar::symm {
namespace {

class SymmetricMultimemRanks : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricMultimemRanks, ::testing::Values(1, 2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricMultimemRanks, OutOfPlaceReductionsAndPutsAreCorrect) {
  RankProcesses ranks(GetParam(), [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    std::string wrong = run_multimem_program(own);
    own.group.leave(kTestTimeout);
    return wrong;
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// One rank makes the invalid calls; the other ranks are unaffected.
TEST(SymmetricMultimem, ChecksArgumentsBeforeLaunch) {
  RankProcesses ranks(2, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    std::string wrong = rank.rank == 1 ? check_multimem_invalid_arguments(own) : "";
    wrong += check_multimem_put(own, 0, 100, {});
    own.group.leave(kTestTimeout);
    return wrong;
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMultimem, DetectsDifferentRoots) {
  RankProcesses ranks(3, [](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    CollectiveOptions options;
    options.timeout = kTestTimeout;
    options.out = own.scratch.data();
    const std::string message =
        error_message([&] { own.handle.multimem_reduce(10, rank.rank == 2 ? 2 : 0, {}, options); });
    own.handle.multimem_reduce(10, 0, {}, options);
    own.group.leave(kTestTimeout);
    return message;
  });
  EXPECT_THAT(ranks.results(),
              Each(AllOf(HasSubstr("rank 0 a multimem reduce (sum of f32, to rank 0, 40 bytes"),
                         HasSubstr("rank 2 a multimem reduce (sum of f32, to rank 2"))));
}

}  // namespace
}  // namespace ashlar::symm
