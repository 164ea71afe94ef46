// SPDX-License-Identifier: Apache-2.0
//
// A process forks while it has a simulated machine. The child's copy must not affect the parent.
#include <gtest/gtest.h>

#include "ashlar/sim.h"
#include "base/units.h"
#include "mp/child_process.h"

namespace ashlar::sim {
namespace {

TEST(ForkTest, ChildExitLeavesParentMachineIntact) {
  Options options;
  options.capacity_bytes = kGiB;
  std::unique_ptr<Machine> machine = *Machine::try_create(options);
  Device& device = machine->device(DeviceIndex(0));
  const DeviceAddress at = *device.allocate(kMiB);
  uint32_t value = 12345;
  ASSERT_TRUE(device.copy_to_device(at, &value, sizeof(value), kDefaultStream).ok());
  ASSERT_TRUE(device.synchronize_device().ok());
  const ExtentId extent = *device.create(2 * kMiB, {.can_export_fabric = true});
  const FabricHandle handle = *device.export_fabric(extent);

  ChildProcess child([&](int) {
    machine.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);

  value = 0;
  ASSERT_TRUE(device.copy_to_host(&value, at, sizeof(value), kDefaultStream).ok());
  ASSERT_TRUE(device.synchronize_device().ok());
  EXPECT_EQ(value, 12345u);
  ChildProcess importer([&](int) {
    const std::unique_ptr<Machine> own = *Machine::try_create(options);
    return own->device(DeviceIndex(0)).import_fabric(handle, 2 * kMiB).ok() ? 0 : 1;
  });
  EXPECT_EQ(importer.wait(), 0) << "the parent's handles are no longer served";
}

}  // namespace
}  // namespace ashlar::sim
