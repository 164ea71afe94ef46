// SPDX-License-Identifier: Apache-2.0
//
// Tests the registry of back ends and their devices.
#include "device/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/units.h"
#include "standin/control.h"

namespace ashlar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Registry registry_with(size_t device_count, size_t capacity_bytes = kGiB) {
  BackendOptions options;
  options.sim.device_count = device_count;
  options.sim.capacity_bytes = capacity_bytes;
  Result<Registry> registry = Registry::create(options);
  EXPECT_TRUE(registry.ok()) << registry.status().to_string();
  return *std::move(registry);
}

TEST(RegistryTest, HasThreeBackEnds) {
  const Registry registry = registry_with(1);
  std::vector<std::string_view> names;
  for (const Backend& backend : registry.backends()) names.push_back(backend.name());
  EXPECT_THAT(names, ElementsAre("sim", "cuda", "hip"));
}

TEST(RegistryTest, OpensTheSimulatedMachineWithTheGivenOptions) {
  const Registry registry = registry_with(5, 3 * kGiB);
  const Backend* sim = registry.find("sim");
  ASSERT_NE(sim, nullptr);
  EXPECT_TRUE(sim->is_available());
  ASSERT_EQ(sim->devices().size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    const DeviceProperties& properties = sim->devices()[i]->properties();
    EXPECT_EQ(properties.backend, "sim");
    EXPECT_EQ(properties.index, DeviceIndex(i));
    EXPECT_EQ(properties.capacity_bytes, 3 * kGiB);
  }
}

TEST(RegistryTest, RejectsInvalidSimulatorOptions) {
  BackendOptions options;
  options.sim.device_count = 0;
  const Result<Registry> registry = Registry::create(options);
  ASSERT_FALSE(registry.ok());
  EXPECT_EQ(registry.status().kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(registry.status().message(), HasSubstr("device_count"));
}

TEST(RegistryTest, ReportsWhyAVendorBackEndIsUnavailable) {
  BackendOptions options;
  options.cuda.library = "libashlar_no_such_driver.so.1";
  options.hip.library = "libashlar_no_such_driver.so.2";
  const Result<Registry> registry = Registry::create(options);
  ASSERT_TRUE(registry.ok()) << "a missing driver is not an error";
  for (const char* name : {"cuda", "hip"}) {
    const Backend* backend = registry->find(name);
    ASSERT_NE(backend, nullptr);
    EXPECT_FALSE(backend->is_available());
    EXPECT_TRUE(backend->devices().empty());
    EXPECT_EQ(backend->availability().kind(), StatusKind::kUnsupported);
  }
  EXPECT_THAT(registry->find("cuda")->availability().message(),
              StartsWith("no CUDA driver: libashlar_no_such_driver.so.1: "));
  EXPECT_THAT(registry->find("hip")->availability().message(), StartsWith("no HIP driver: "));
}

TEST(RegistryTest, ListsDriverDevicesNextToSimulatedOnes) {
  BackendOptions options;
  standin::control_of(ASHLAR_CUDA_STANDIN).restart(options.sim, {});
  options.cuda.library = ASHLAR_CUDA_STANDIN;
  const Result<Registry> registry = Registry::create(options);
  ASSERT_TRUE(registry.ok());
  const Backend* cuda = registry->find("cuda");
  ASSERT_TRUE(cuda->is_available()) << cuda->availability().to_string();
  ASSERT_EQ(cuda->devices().size(), 2U);
  EXPECT_EQ(cuda->devices()[1]->properties().backend, "cuda");
  EXPECT_EQ(cuda->devices()[1]->properties().index, DeviceIndex(1));
  EXPECT_THAT(registry->devices(), ::testing::Contains(cuda->devices()[0]));
}

TEST(RegistryTest, FindReturnsNullForAnUnknownBackEnd) {
  const Registry registry = registry_with(1);
  EXPECT_EQ(registry.find("metal"), nullptr);
  EXPECT_EQ(registry.find(""), nullptr);
}

TEST(RegistryTest, ListsTheDevicesOfAllBackEnds) {
  const Registry registry = registry_with(3);
  const std::vector<Device*> devices = registry.devices();
  for (const Device* device : registry.find("sim")->devices()) {
    EXPECT_THAT(devices, ::testing::Contains(device));
  }
  EXPECT_EQ(std::set<Device*>(devices.begin(), devices.end()).size(), devices.size());
}

TEST(RegistryTest, MovingTheRegistryKeepsDeviceAddresses) {
  Registry original = registry_with(2);
  const std::vector<Device*> before = original.devices();
  const Registry moved = std::move(original);
  EXPECT_EQ(moved.devices(), before);
  EXPECT_TRUE(before.front()->memory_stats().ok());
}

}  // namespace
}  // namespace ashlar
