// SPDX-License-Identifier: Apache-2.0
//
// Threads whose host memory runs out: the state of a thread that locks for the first time or
// changes its capture mode, and background threads, which must not end the process.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "ashlar/allocator.h"
#include "ashlar/sharing.h"
#include "ashlar/sim.h"
#include "base/biased_mutex.h"
#include "contract/waiting.h"
#include "device/relaxed_capture.h"
#include "host/poller.h"
#include "share/lease.h"
#include "share/share_format.h"
#include "sweep/host_allocation_faults.h"
#include "symm/channel/channel.h"
#include "symm/membership/heartbeat_thread.h"

namespace ashlar {
namespace {

constexpr std::chrono::milliseconds kTimeout{60'000};

using TestedMutex = BiasedMutex<LockRank::kArena>;

// Threads reuse the records of threads that have ended, so threads are started, and stay alive,
// until one needs a new record.
TEST(ThreadHostFaultsTest, FirstLockOfAThreadNeedsNoMemory) {
  constexpr size_t kMaxThreads = 1000;
  TestedMutex mutex;
  int count = 0;
  std::atomic<bool> has_failed{false};
  std::latch end(1);
  std::vector<std::thread> threads;
  while (!has_failed && threads.size() < kMaxThreads) {
    std::latch has_locked(1);
    threads.emplace_back([&] {
      {
        const sweep::HostAllocationFault fault(1);
        for (int i = 0; i < 200; ++i) {  // enough to establish a bias
          const BiasedLock lock(mutex);
          ++count;
        }
        if (fault.has_failed()) has_failed = true;
      }
      has_locked.count_down();
      end.wait();
    });
    has_locked.wait();
  }
  end.count_down();
  for (std::thread& each : threads) each.join();
  EXPECT_TRUE(has_failed);
  EXPECT_EQ(count, static_cast<int>(200 * threads.size()));
}

TEST(ThreadHostFaultsTest, RelaxedCaptureNeedsNoMemory) {
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create({.device_count = 1});
  const sweep::HostAllocationFault fault(1);
  {
    const RelaxedCapture relaxed(machine->device(DeviceIndex{0}));
    EXPECT_TRUE(relaxed.status().ok());
  }
  EXPECT_FALSE(fault.has_failed());
}

// Calls `request` while all allocations of other threads fail, and waits until one has failed.
void fail_background_thread(const std::function<void()>& request) {
  const sweep::OtherThreadsFault fault;
  request();
  EXPECT_TRUE(contract::eventually([&] { return fault.failure_count() > 0; }));
}

TEST(ThreadHostFaultsTest, ShareServerContinues) {
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create({.device_count = 1});
  Allocator allocator(machine->device(DeviceIndex{0}), parse_options("engine:classic"));
  const Buffer buffer = allocator.allocate(3 << 20);
  const Share share = allocator.sharing().share(buffer);
  const ShareHandle handle = *parse_share_handle(share.handle());
  std::optional<Lease> dropped;
  fail_background_thread([&] { dropped = *Lease::connect(handle, kTimeout); });
  Lease lease = *Lease::connect(handle, kTimeout);
  EXPECT_TRUE(lease.request(0).ok());
}

struct CountingTask final : symm::HeartbeatTask {
  void run(Deadline /*deadline*/) override {
    const std::vector<int> memory(100);
    ++count;
  }
  std::atomic<int> count{0};
};

TEST(ThreadHostFaultsTest, HeartbeatThreadContinues) {
  CountingTask task;
  const auto thread = *symm::HeartbeatThread::start(std::chrono::milliseconds(1));
  fail_background_thread([&] { thread->add(task); });
  EXPECT_TRUE(contract::eventually([&] { return task.count > 0; }));
  thread->remove(task);
}

TEST(ThreadHostFaultsTest, ChannelContinues) {
  const std::unique_ptr<symm::Channel> channel = *symm::Channel::open({});
  const symm::ConnectionId id{{}, 0, 1};
  std::optional<UniqueFd> dropped;
  fail_background_thread([&] {
    dropped = *symm::Channel::connect(channel->address(), id, Deadline::after(kTimeout));
  });
  const UniqueFd socket =
      *symm::Channel::connect(channel->address(), id, Deadline::after(kTimeout));
  const symm::Failure failure;
  EXPECT_TRUE(channel->accept(id, failure, Deadline::after(kTimeout)).ok());
}

// Calls the functions directly, because compilers may omit the calls of new-expressions.
void allocate_something() { ::operator delete(::operator new(100)); }

TEST(ThreadHostFaultsTest, PollerContinues) {
  std::atomic<bool> is_done{false};
  SteadyClock clock;
  Poller poller(clock, [&] {
    allocate_something();
    is_done = true;
    return false;
  });
  fail_background_thread([&] { (void)poller.wake(); });
  EXPECT_TRUE(contract::eventually([&] { return is_done.load(); }));
}

// The work of a stream runs on a thread of the simulated device.
TEST(ThreadHostFaultsTest, FailingWorkLosesTheDevice) {
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create({.device_count = 1});
  Device& device = machine->device(DeviceIndex{0});
  const StreamId stream = *device.create_stream();
  const sweep::OtherThreadsFault fault;
  ASSERT_TRUE(machine
                  ->try_launch(DeviceIndex{0}, stream,
                               [](const sim::DeviceMemory&) -> Status {
                                 allocate_something();
                                 return {};
                               })
                  .ok());
  EXPECT_TRUE(contract::eventually([&] { return fault.failure_count() > 0; }));
  const Status lost = device.synchronize_device();
  EXPECT_TRUE(lost.is(StatusKind::kDeviceLost)) << lost.to_string();
}

// A new extent may have the address of a released one, for which the fabric still has an entry.
TEST(ThreadHostFaultsTest, FabricExportsAfterFailedAllocation) {
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create({.device_count = 1});
  Device& device = machine->device(DeviceIndex{0});
  const size_t bytes = device.properties().granularity_bytes;
  bool has_failed = true;
  for (uint64_t nth = 1; has_failed; ++nth) {
    const ExtentId released = *device.create(bytes, {.can_export_fabric = true});
    ASSERT_TRUE(device.export_fabric(released).ok());
    ASSERT_TRUE(device.release(released).ok());
    const ExtentId extent = *device.create(bytes, {.can_export_fabric = true});
    {
      const sweep::HostAllocationFault fault(nth);
      const bool is_exported = device.export_fabric(extent).ok();
      has_failed = fault.has_failed();
      EXPECT_NE(is_exported, has_failed) << nth;
    }
    const Result<FabricHandle> handle = device.export_fabric(extent);
    ASSERT_TRUE(handle.ok()) << nth << ": " << handle.status().to_string();
    const Result<ExtentId> imported = device.import_fabric(*handle, bytes);
    ASSERT_TRUE(imported.ok()) << nth << ": " << imported.status().to_string();
    EXPECT_TRUE(device.release(*imported).ok());
    EXPECT_TRUE(device.release(extent).ok());
  }
}

// A second simulated machine imports an extent through the socket of the first machine's fabric
// server.
TEST(ThreadHostFaultsTest, FabricServerNeedsNoMemory) {
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create({.device_count = 1});
  const std::unique_ptr<sim::Machine> other = *sim::Machine::try_create({.device_count = 1});
  Device& device = machine->device(DeviceIndex{0});
  const size_t bytes = device.properties().granularity_bytes;
  CreateOptions options;
  options.can_export_fabric = true;
  const ExtentId extent = *device.create(bytes, options);
  const FabricHandle handle = *device.export_fabric(extent);
  Device& importer = other->device(DeviceIndex{0});
  const sweep::OtherThreadsFault fault;
  EXPECT_TRUE(importer.import_fabric(handle, bytes).ok());
}

}  // namespace
}  // namespace ashlar
