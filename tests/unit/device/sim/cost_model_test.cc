// SPDX-License-Identifier: Apache-2.0
//
// Tests the cost model at and between the measured sizes.
#include "device/sim/cost_model.h"

#include <gtest/gtest.h>

#include "machine_fixture.h"

namespace ashlar::sim {
namespace {

double us(DeviceCall call, size_t bytes, size_t extents = 1) {
  return static_cast<double>(modelled_call_ns(call, {bytes, extents})) / 1000;
}

TEST(CostModelTest, ReproducesMeasuredCosts) {
  EXPECT_DOUBLE_EQ(us(DeviceCall::kAllocate, 2 * kMiB), 49);
  EXPECT_DOUBLE_EQ(us(DeviceCall::kAllocate, 20 * kMiB), 63);
  EXPECT_DOUBLE_EQ(us(DeviceCall::kFree, kGiB), 546);
  EXPECT_DOUBLE_EQ(us(DeviceCall::kCreate, 2 * kMiB), 11.8);
  EXPECT_DOUBLE_EQ(us(DeviceCall::kSetAccess, 256 * kMiB), 62);
  EXPECT_DOUBLE_EQ(us(DeviceCall::kRelease, 8 * kGiB), 5369);
}

TEST(CostModelTest, InterpolatesBetweenMeasuredSizes) {
  const double middle = us(DeviceCall::kAllocate, 100 * kMiB);
  EXPECT_GT(middle, 63);
  EXPECT_LT(middle, 79);
  EXPECT_DOUBLE_EQ(us(DeviceCall::kAllocate, 512), 49) << "constant below the smallest size";
  EXPECT_NEAR(us(DeviceCall::kFree, 16 * kGiB), 2 * 3827, 0.01)
      << "proportional above the largest size";
}

TEST(CostModelTest, SetAccessCostGrowsWithTheExtentCount) {
  EXPECT_NEAR(us(DeviceCall::kSetAccess, kGiB, 512), 17600, 50);
  EXPECT_NEAR(us(DeviceCall::kUnmap, kGiB, 512), 512 * 23, 1);
}

TEST(CostModelTest, MachineCountsSuccessfulCallsPerDevice) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const MappedRange mapped = map_extents(device, 4);
  EXPECT_FALSE(device.create(1).ok());
  const CallCosts costs = machine->costs(kFirst);
  EXPECT_EQ(costs.count_of(DeviceCall::kCreate), 4u);
  EXPECT_EQ(costs.count_of(DeviceCall::kMap), 4u);
  EXPECT_EQ(costs.count_of(DeviceCall::kSetAccess), 1u);
  const int64_t expected = 1000 + 4 * 11800 + 4 * 1300 + 4 * 34400;
  EXPECT_NEAR(static_cast<double>(costs.total_ns), static_cast<double>(expected), 2500);
  EXPECT_EQ(machine->costs(kSecond).total_ns, 0);
  machine->reset_costs(kFirst);
  EXPECT_EQ(machine->costs(kFirst).total_ns, 0);
}

TEST(DeviceCallTest, EveryCallHasAUniqueName) {
  for (size_t i = 0; i < kDeviceCallCount; ++i) {
    const auto call = static_cast<DeviceCall>(i);
    EXPECT_FALSE(name(call).empty());
    EXPECT_EQ(device_call_from_name(name(call)), call);
  }
  EXPECT_EQ(device_call_from_name("cudaMalloc"), std::nullopt);
}

}  // namespace
}  // namespace ashlar::sim
