// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th allocation of host memory for every n, in the operations of the classic engine.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

#include "engine/classic/classic_engine.h"
#include "sweep/host_fault_world.h"

namespace ashlar::classic {
namespace {

struct EngineCase {
  std::string name;
  sweep::EngineFactory make;
};

EngineCase classic_case(std::string name, const AllocatorOptions& options) {
  return {std::move(name), [options](Device& device) {
            return sweep::checked_engine(std::make_unique<ClassicEngine>(device, options));
          }};
}

std::vector<EngineCase> engine_cases() {
  AllocatorOptions expandable;
  expandable.expandable_segments = true;
  return {classic_case("Plain", {}), classic_case("Expandable", expandable)};
}

// Returns the scenarios whose operations need no memory after their first change.
std::vector<sweep::HostFaultScenario> covered_scenarios() {
  std::vector<sweep::HostFaultScenario> covered;
  for (const sweep::HostFaultScenario& each : sweep::common_host_fault_scenarios()) {
    const std::set<std::string> names = {"AllocateCached", "Free",       "FreeWithHistory",
                                         "RecordStream",   "EndRouting", "ReleasePool",
                                         "TakeSnapshot",   "Stats"};
    if (names.contains(each.name)) covered.push_back(each);
  }
  return covered;
}

class ClassicHostFaultsTest
    : public ::testing::TestWithParam<std::tuple<EngineCase, sweep::HostFaultScenario>> {};

TEST_P(ClassicHostFaultsTest, LosesNothingWhenAnyAllocationFails) {
  const auto& [engine, scenario] = GetParam();
  sweep::expect_safe_when_any_allocation_fails(engine.make, scenario);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ClassicHostFaultsTest,
                         ::testing::Combine(::testing::ValuesIn(engine_cases()),
                                            ::testing::ValuesIn(covered_scenarios())),
                         [](const auto& each) {
                           return std::get<0>(each.param).name + std::get<1>(each.param).name;
                         });

}  // namespace
}  // namespace ashlar::classic
