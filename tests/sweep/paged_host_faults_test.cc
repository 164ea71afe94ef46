// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th allocation of host memory for every n, in the operations of the paged engine.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

#include "engine/paged/paged_engine.h"
#include "sweep/host_fault_world.h"
#include "sweep/paged_host_fault_scenarios.h"

namespace ashlar::paged {
namespace {

struct EngineCase {
  std::string name;
  sweep::EngineFactory make;
};

EngineCase paged_case(std::string name, PagedPolicy policy) {
  return {std::move(name), [policy](Device& device) {
            AllocatorOptions options;
            options.policy = policy;
            return sweep::checked_engine(std::make_unique<PagedEngine>(device, options));
          }};
}

std::vector<EngineCase> engine_cases() {
  return {paged_case("Balanced", PagedPolicy::kBalanced), paged_case("Fast", PagedPolicy::kFast),
          paged_case("Lean", PagedPolicy::kLean)};
}

// Leaves out operations that rely on PendingFrees and Hooks, which need memory to record a free.
std::vector<sweep::HostFaultScenario> common_scenarios() {
  std::vector<sweep::HostFaultScenario> covered;
  for (const sweep::HostFaultScenario& each : sweep::common_host_fault_scenarios()) {
    const std::set<std::string> exempt = {
        "AllocateAfterPendingFree", "FreeUsedBlock",  "FreeUsedBlockQuietly",
        "UnpinFreedBlock",          "Trim",           "TrimTo",
        "AllocateWithTracker",      "FreeWithTracker"};
    if (!exempt.contains(each.name)) covered.push_back(each);
  }
  return covered;
}

// Leaves out operations that allocate device memory in one call, in which the simulated device
// loses memory itself.
std::vector<sweep::HostFaultScenario> paged_scenarios() {
  std::vector<sweep::HostFaultScenario> covered;
  for (const sweep::HostFaultScenario& each : paged_host_fault_scenarios()) {
    const std::set<std::string> exempt = {"AllocateFromSource", "ReturnToSource",
                                          "AllocateUncached", "FreeUncached"};
    if (!exempt.contains(each.name)) covered.push_back(each);
  }
  return covered;
}

std::string name_of(
    const ::testing::TestParamInfo<std::tuple<EngineCase, sweep::HostFaultScenario>>& each) {
  return std::get<0>(each.param).name + std::get<1>(each.param).name;
}

class PagedHostFaultsTest
    : public ::testing::TestWithParam<std::tuple<EngineCase, sweep::HostFaultScenario>> {};

TEST_P(PagedHostFaultsTest, LosesNothingWhenAnyAllocationFails) {
  const auto& [engine, scenario] = GetParam();
  sweep::expect_safe_when_any_allocation_fails(engine.make, scenario);
}

INSTANTIATE_TEST_SUITE_P(Policies, PagedHostFaultsTest,
                         ::testing::Combine(::testing::ValuesIn(engine_cases()),
                                            ::testing::ValuesIn(common_scenarios())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Paged, PagedHostFaultsTest,
                         ::testing::Combine(::testing::Values(paged_case("Balanced",
                                                                         PagedPolicy::kBalanced)),
                                            ::testing::ValuesIn(paged_scenarios())),
                         name_of);

}  // namespace
}  // namespace ashlar::paged
