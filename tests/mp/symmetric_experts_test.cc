// SPDX-License-Identifier: Apache-2.0
//
// dispatch and combine on host memory, on simulated devices, and on the stand-in driver or, with
// ASHLAR_TEST_DEVICE=cuda, on a GPU. ASHLAR_STRESS_OPERATIONS sets the number of random exchanges,
// and ASHLAR_STRESS_SEED their seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mp/harness/expert_program.h"
#include "mp/harness/gpu_rank.h"
#include "mp/harness/graph_program.h"

namespace ashlar::symm {
namespace {

using ExpertBody = std::function<std::string(const ExpertMemory& own)>;

RankMain on_host(const ExpertBody& body) {
  return with_memory(DeviceRank::kBytes, [body](SymmetricRank& own) {
    const SymmetricBuffer other = own.heap.allocate(DeviceRank::kBytes);
    const Handle handle = own.group.rendezvous(other, kTestTimeout);
    return body({.group = own.group,
                 .handle = own.handle,
                 .other = other,
                 .other_handle = handle,
                 .device = nullptr});
  });
}

RankMain on_sim_device(const ExpertBody& body) {
  return [body](const RankSpec& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = make_machine(rank.world_size);
    SimDeviceRank own(rank, *machine);
    std::string wrong = body(expert_memory(own));
    if (wrong.empty()) own.group.leave(kTestTimeout);
    return wrong;
  };
}

RankMain on_test_gpu(const ExpertBody& body) {
  return with_kernels([body](DeviceRank& own) { return body(expert_memory(own)); });
}

std::string run_exchanges(const ExpertMemory& own) {
  return check_expert_exchanges(own, graph_program_options().replay_count) + check_round_trip(own);
}

class SymmetricExperts : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricExperts, ::testing::Values(1, 2, 4, 5),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricExperts, MatchModelOnHost) {
  RankProcesses ranks(GetParam(), on_host(run_exchanges));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST_P(SymmetricExperts, MatchModelOnSimulatedDevice) {
  RankProcesses ranks(GetParam(), on_sim_device(run_exchanges));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

class SymmetricGpuExperts : public SymmetricGpuKernels,
                            public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricGpuExperts, ::testing::Values(1, 2, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricGpuExperts, MatchModel) {
  RankProcesses ranks(GetParam(), on_test_gpu(run_exchanges));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_P(SymmetricGpuExperts, GraphReadsSplitsAtEachLaunch) {
  RankProcesses ranks(GetParam(), on_test_gpu(check_expert_graph));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST(SymmetricExperts, GraphReadsSplitsAtEachLaunch) {
  RankProcesses ranks(3, on_sim_device(check_expert_graph));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricExperts, ReportsInvalidSplitsToReceivers) {
  RankProcesses host_ranks(3, on_host(check_expert_errors));
  EXPECT_THAT(host_ranks.results(), Each(IsEmpty()));
  RankProcesses device_ranks(3, on_sim_device(check_expert_errors));
  EXPECT_THAT(device_ranks.results(), Each(IsEmpty()));
}

class SymmetricGpuExpertErrors : public SymmetricGpuKernels {};

TEST_F(SymmetricGpuExpertErrors, ReportsInvalidSplitsToReceivers) {
  RankProcesses ranks(3, on_test_gpu(check_expert_errors));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
