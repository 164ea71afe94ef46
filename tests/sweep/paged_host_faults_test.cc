// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th allocation of host memory for every n, in the operations of the paged engine.
#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(
    Policies, PagedHostFaultsTest,
    ::testing::Combine(::testing::ValuesIn(engine_cases()),
                       ::testing::ValuesIn(sweep::common_host_fault_scenarios())),
    name_of);
INSTANTIATE_TEST_SUITE_P(Paged, PagedHostFaultsTest,
                         ::testing::Combine(::testing::Values(paged_case("Balanced",
                                                                         PagedPolicy::kBalanced)),
                                            ::testing::ValuesIn(paged_host_fault_scenarios())),
                         name_of);

}  // namespace
}  // namespace ashlar::paged
