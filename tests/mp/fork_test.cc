// SPDX-License-Identifier: Apache-2.0
//
// A process forks while it has a simulated machine and allocators. The child's copies must not
// affect the parent, and the child must not wait for locks that threads of the parent hold.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "ashlar/allocator.h"
#include "ashlar/host.h"
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

// A route filter that blocks, and so keeps the lock of the allocator that calls it.
class BlockingFilter {
 public:
  RouteFilter filter() {
    return [this](StreamId) {
      is_entered_ = true;
      while (!is_released_) std::this_thread::yield();
      return false;
    };
  }
  void wait_until_entered() const {
    while (!is_entered_) std::this_thread::yield();
  }
  void release() { is_released_ = true; }

 private:
  std::atomic<bool> is_entered_{false};
  std::atomic<bool> is_released_{false};
};

class ForkWithLockTest : public ::testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Machine> machine_ = *Machine::try_create(Options());
  Device& device_ = machine_->device(DeviceIndex(0));
  BlockingFilter blocking_;
};

bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& refused) {
    return std::string(refused.what()).find("after the fork") != std::string::npos;
  }
  return false;
}

TEST_P(ForkWithLockTest, ChildDoesNotWaitForLockOfAllocator) {
  auto allocator = std::make_unique<Allocator>(device_, parse_options(GetParam()));
  Buffer buffer = allocator->allocate(1000);
  const PoolId pool = allocator->pools().create();
  allocator->pools().begin_routing(pool, blocking_.filter());
  std::thread holder([&] { (void)allocator->allocate(1000); });
  blocking_.wait_until_entered();
  ChildProcess child([&](int) {
    ::alarm(60);
    if (!is_refused([&] { (void)allocator->allocate(1000); })) return 1;
    if (!is_refused([&] { (void)allocator->stats(); })) return 2;
    buffer.reset();
    allocator.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  blocking_.release();
  holder.join();
  allocator->pools().end_routing(pool);
  EXPECT_EQ(allocator->stats().allocation.all.current, 1);
}

INSTANTIATE_TEST_SUITE_P(Engines, ForkWithLockTest,
                         ::testing::Values("engine:paged", "engine:classic", "engine:async"));

using ForkTestOfHostAllocator = ForkWithLockTest;

TEST_P(ForkTestOfHostAllocator, ChildDoesNotWaitForLock) {
  auto host = std::make_unique<HostAllocator>(device_, parse_options(GetParam()));
  HostBuffer buffer = host->allocate(1000);
  const PoolId pool{0, 1};
  host->begin_routing(pool, blocking_.filter());
  std::thread holder([&] { (void)host->allocate(1000); });
  blocking_.wait_until_entered();
  ChildProcess child([&](int) {
    ::alarm(60);
    if (!is_refused([&] { (void)host->allocate(1000); })) return 1;
    buffer.reset();
    host.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  blocking_.release();
  holder.join();
  host->end_routing(pool);
  host->release_pool(pool);
}

INSTANTIATE_TEST_SUITE_P(Polling, ForkTestOfHostAllocator,
                         ::testing::Values("", "pinned_use_background_threads:True"));

}  // namespace
}  // namespace ashlar::sim
