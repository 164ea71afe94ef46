// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th allocation of host memory for every n, in the operations of the engines with the
// classic policy: classic, async and plug-in.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "ashlar/sim.h"
#include "base/host_memory.h"
#include "base/units.h"
#include "engine/async/async_engine.h"
#include "engine/classic/classic_engine.h"
#include "engine/plugin/plugin_engine.h"
#include "sweep/host_allocation_faults.h"
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

// A plug-in that passes requests to the device of the last engine that was made.
Device* plugin_device = nullptr;

void* allocate_from_device(size_t bytes, int /*device*/, void* /*stream*/) {
  const sweep::HostAllocationExemption exempt;
  const Result<DeviceAddress> address = plugin_device->allocate(bytes);
  return address.ok() ? address->as() : nullptr;
}

void free_to_device(void* memory, size_t /*bytes*/, int /*device*/, void* /*stream*/) {
  const sweep::HostAllocationExemption exempt;
  EXPECT_TRUE(plugin_device->free(DeviceAddress::of(memory)).ok());
}

sweep::CheckedEngine make_plugin_engine(Device& device) {
  plugin_device = &device;
  auto plugin = Plugin::wrap({.alloc = allocate_from_device, .free = free_to_device});
  return sweep::checked_engine(*PluginEngine::create(device, {}, *std::move(plugin)));
}

std::vector<EngineCase> engine_cases() {
  AllocatorOptions expandable;
  expandable.expandable_segments = true;
  AllocatorOptions collecting;
  collecting.memory_fraction = 0.9;
  collecting.garbage_collection_threshold = 0.2;
  collecting.max_split_bytes = 20 * kMiB;
  return {classic_case("Plain", {}),
          classic_case("Expandable", expandable),
          classic_case("Collecting", collecting),
          {"Async",
           [](Device& device) { return sweep::checked_engine(*AsyncEngine::create(device, {})); }},
          {"Plugin", make_plugin_engine}};
}

std::string case_name(const std::tuple<EngineCase, sweep::HostFaultScenario>& each) {
  return std::get<0>(each).name + std::get<1>(each).name;
}

class ClassicHostFaultsTest
    : public ::testing::TestWithParam<std::tuple<EngineCase, sweep::HostFaultScenario>> {};

TEST_P(ClassicHostFaultsTest, LosesNothingWhenAnyAllocationFails) {
  auto [engine, scenario] = GetParam();
  if (case_name(GetParam()) == "ExpandableAllocateFromFragments") {
    GTEST_SKIP() << "every granule has an allocated block, so another stream cannot use the memory";
  }
  // Garbage collection may release memory before an allocation that fails.
  if (engine.name == "Collecting") scenario.may_change_caches = true;
  sweep::expect_safe_when_any_allocation_fails(engine.make, scenario);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ClassicHostFaultsTest,
    ::testing::Combine(::testing::ValuesIn(engine_cases()),
                       ::testing::ValuesIn(sweep::common_host_fault_scenarios())),
    [](const auto& each) { return case_name(each.param); });

// A recorded segment with three blocks, of which the second one is inactive.
SnapshotSegment recorded_segment(bool is_expandable) {
  SnapshotSegment segment;
  segment.address = DeviceAddress(size_t{64} * kGiB);
  segment.is_large = true;
  segment.is_expandable = is_expandable;
  for (int i = 0; i < 3; ++i) {
    SnapshotBlock block;
    block.address = segment.address + segment.total_bytes;
    block.bytes = block.requested_bytes = 20 * kMiB;
    block.state = i == 1 ? SnapshotBlockState::kInactive : SnapshotBlockState::kAllocated;
    segment.blocks.push_back(block);
    segment.total_bytes += block.bytes;
  }
  return segment;
}

class AdoptHostFaultsTest : public ::testing::TestWithParam<bool> {};

TEST_P(AdoptHostFaultsTest, LosesNothingWhenAnyAllocationFails) {
  const bool is_expandable = GetParam();
  const SnapshotSegment segment = recorded_segment(is_expandable);
  AllocatorOptions options;
  options.expandable_segments = is_expandable;
  bool has_failed = true;
  for (uint64_t nth = 1; has_failed; ++nth) {
    sim::Options one_device;
    one_device.device_count = 1;
    const std::unique_ptr<sim::Machine> machine = sim::Machine::create(one_device);
    Device& device = machine->device(DeviceIndex{0});
    ClassicEngine engine(device, options);
    const size_t free_bytes = device.memory_stats()->free_bytes;
    std::vector<ClassicBlock*> adopted;
    {
      const sweep::HostAllocationFault fault(nth);
      catch_bad_alloc([&] {
        auto result = is_expandable ? engine.adopt_expandable({&segment, 1}, segment.address)
                                    : engine.adopt(segment);
        if (result.ok()) adopted = *std::move(result);
        return true;
      });
      has_failed = fault.has_failed();
    }
    EXPECT_EQ(adopted.size(), has_failed ? 0U : 2U) << nth;
    const Status valid = engine.validate();
    EXPECT_TRUE(valid.ok()) << nth << ": " << valid.to_string();
    for (ClassicBlock* block : adopted) EXPECT_TRUE(engine.free(block).ok());
    EXPECT_TRUE(engine.trim().ok());
    EXPECT_EQ(device.memory_stats()->free_bytes, free_bytes) << nth;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, AdoptHostFaultsTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Expandable" : "Plain"; });

}  // namespace
}  // namespace ashlar::classic
