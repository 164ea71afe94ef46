// SPDX-License-Identifier: Apache-2.0
//
// Tests the probe that decides `can_alias`, on drivers that support aliases, refuse them, or lose
// data.
#include "unit/device/gpu_fixture.h"

namespace ashlar {
namespace {

using standin::AliasBehavior;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class AliasProbeTest : public CudaTest {
 protected:
  const DeviceProperties& probe(AliasBehavior behavior) {
    restart({.alias = behavior});
    return device().properties();
  }
  // Expects that the probe has released its memory, and that later calls do not report its
  // failures.
  void expect_no_trace() {
    EXPECT_EQ(device().memory_stats()->free_bytes, kGiB);
    EXPECT_EQ(control().extent_count(), 0U);
    EXPECT_TRUE(device().last_error().ok());
    EXPECT_TRUE(device().synchronize_device().ok());
  }
};

TEST_F(AliasProbeTest, AcceptsCoherentAliases) {
  const DeviceProperties& properties = probe(AliasBehavior::kCoherent);
  EXPECT_TRUE(properties.can_alias);
  EXPECT_THAT(properties.alias_probe, StartsWith("works: "));
  expect_no_trace();
}

TEST_F(AliasProbeTest, ReportsTheErrorOfARefusedMapping) {
  const DeviceProperties& properties = probe(AliasBehavior::kRefused);
  EXPECT_FALSE(properties.can_alias);
  EXPECT_THAT(properties.alias_probe,
              AllOf(StartsWith("refused: cuMemMap: "), HasSubstr("CUDA_ERROR_INVALID_VALUE")));
  EXPECT_TRUE(properties.has_virtual_memory);
  expect_no_trace();
}

TEST_F(AliasProbeTest, DetectsStoresLostThroughTheFirstMapping) {
  const DeviceProperties& properties = probe(AliasBehavior::kLosesStoresThroughFirst);
  EXPECT_FALSE(properties.can_alias);
  EXPECT_THAT(properties.alias_probe,
              AllOf(StartsWith("incoherent: "), HasSubstr("through the first of two mappings")));
  expect_no_trace();
}

TEST_F(AliasProbeTest, DetectsStoresLostThroughTheSecondMapping) {
  const DeviceProperties& properties = probe(AliasBehavior::kLosesStoresThroughSecond);
  EXPECT_FALSE(properties.can_alias);
  EXPECT_THAT(properties.alias_probe,
              AllOf(StartsWith("incoherent: "), HasSubstr("through the second of two mappings")));
  expect_no_trace();
}

TEST_F(AliasProbeTest, DoesNotRunWithoutVirtualMemory) {
  restart({.virtual_memory = false});
  EXPECT_FALSE(device().properties().can_alias);
  EXPECT_THAT(device().properties().alias_probe, StartsWith("not probed: "));
}

TEST_F(AliasProbeTest, ReportsAFailedTransferAndLeavesTheDeviceUsable) {
  restart({});
  sim::FaultRule rule;
  rule.call = DeviceCall::kFill;
  rule.status = Status::unsupported("no fill");
  control().inject(rule);
  EXPECT_FALSE(device().properties().can_alias);
  EXPECT_THAT(device().properties().alias_probe, StartsWith("refused: cuMemsetD8Async: "));
  expect_no_trace();
}

TEST_F(AliasProbeTest, MapRejectsASecondMappingOfALossyDriver) {
  ASSERT_FALSE(probe(AliasBehavior::kLosesStoresThroughSecond).can_alias);
  const ExtentId extent = *device().create(kGranule);
  const DeviceAddress at = *device().reserve(2 * kGranule);
  ASSERT_TRUE(device().map(at, extent).ok());
  EXPECT_EQ(device().map(at + kGranule, extent).kind(), StatusKind::kInvalidArgument);
}

TEST_F(AliasProbeTest, AcceptsTheSimulatedDevice) {
  const std::unique_ptr<sim::Machine> machine = sim::Machine::create({});
  const DeviceProperties& properties = machine->device(DeviceIndex(0)).properties();
  EXPECT_TRUE(properties.can_alias);
  EXPECT_THAT(properties.alias_probe, StartsWith("works: "));
}

}  // namespace
}  // namespace ashlar
