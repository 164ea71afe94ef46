// SPDX-License-Identifier: Apache-2.0
//
// Tests fault injection: failing, delayed and hanging calls, and lost devices.
#include <gtest/gtest.h>

#include <thread>

#include "machine_fixture.h"

namespace ashlar::sim {
namespace {

class FaultsTest : public ::testing::Test {
 protected:
  FaultsTest() {
    Options options = small_options();
    options.clock = &clock_;
    machine_ = make_machine(options);
  }
  Device& device() { return machine_->device(kFirst); }
  // Expects that `make` fails when a fault is injected into `call`.
  void expect_fails(DeviceCall call, const std::function<Status()>& make) {
    machine_->clear_faults();
    machine_->inject({.call = call, .status = Status::device_fault("injected", 7, "boom")});
    const Status status = make();
    EXPECT_EQ(status.code(), 7) << name(call) << ": " << status.to_string();
  }

  ManualClock clock_;
  std::unique_ptr<Machine> machine_;
};

TEST_F(FaultsTest, OnlyTheNthCallFails) {
  machine_->inject({.call = DeviceCall::kCreate,
                    .nth = 3,
                    .count = 2,
                    .status = Status::out_of_memory("injected")});
  std::vector<StatusKind> kinds;
  for (int i = 0; i < 6; ++i) {
    (void)device().reserve(2 * kMiB).ok();
    kinds.push_back(device().create(2 * kMiB).status().kind());
  }
  using enum StatusKind;
  EXPECT_EQ(kinds, (std::vector{kOk, kOk, kOutOfMemory, kOutOfMemory, kOk, kOk}));
  EXPECT_EQ(device().memory_stats()->free_bytes, kGiB - 4 * 2 * kMiB)
      << "a failed call took memory";
}

TEST_F(FaultsTest, RuleAppliesToItsDeviceOnly) {
  machine_->inject({.device = kSecond, .count = FaultRule::kForever});
  EXPECT_TRUE(device().memory_stats().ok());
  const Status on_second = machine_->device(kSecond).memory_stats().status();
  EXPECT_EQ(on_second.kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(on_second.failed_call(), "memory_stats");
  machine_->clear_faults();
  EXPECT_TRUE(machine_->device(kSecond).memory_stats().ok());
}

TEST_F(FaultsTest, DelayUsesTheInjectedClock) {
  machine_->inject({.call = DeviceCall::kAllocate,
                    .action = FaultAction::kDelay,
                    .delay = std::chrono::milliseconds(7)});
  const int64_t before = clock_.now_ns();
  EXPECT_TRUE(device().allocate(kMiB).ok());
  EXPECT_EQ(clock_.now_ns() - before, 7'000'000);
}

TEST_F(FaultsTest, HungCallContinuesWhenReleased) {
  machine_->inject({.call = DeviceCall::kAllocate, .action = FaultAction::kHang});
  Result<DeviceAddress> allocated = Status::invalid_argument("not called yet");
  std::thread caller([&] { allocated = device().allocate(kMiB); });
  while (machine_->hung_call_count() == 0) std::this_thread::yield();
  EXPECT_TRUE(device().memory_stats().ok()) << "other calls must not hang";
  machine_->release_hung_calls();
  caller.join();
  EXPECT_TRUE(allocated.ok());
}

TEST_F(FaultsTest, LostDeviceFailsAllCallsWithoutAffectingOthers) {
  const DeviceAddress at = *device().allocate(kMiB);
  machine_->inject({.call = DeviceCall::kFill, .action = FaultAction::kLoseDevice});
  EXPECT_EQ(device().fill(at, 1, kMiB, kDefaultStream).kind(), StatusKind::kDeviceLost);
  EXPECT_EQ(device().memory_stats().status().kind(), StatusKind::kDeviceLost);
  EXPECT_EQ(device().synchronize_device().kind(), StatusKind::kDeviceLost);
  EXPECT_EQ(device().take_last_error().kind(), StatusKind::kDeviceLost);
  EXPECT_EQ(device().last_error().kind(), StatusKind::kDeviceLost)
      << "a device loss cannot be undone";
  EXPECT_TRUE(machine_->device(kSecond).memory_stats().ok());
  machine_->revive(kFirst);
  EXPECT_TRUE(device().free(at).ok());
}

TEST_F(FaultsTest, IllegalKernelAccessLosesTheDevice) {
  const StreamId stream = *device().create_stream();
  ASSERT_TRUE(machine_
                  ->try_launch(kFirst, stream,
                               [](const DeviceMemory& memory) {
                                 return memory.try_view<int>(DeviceAddress(4096), 1).status();
                               })
                  .ok());
  bool later_work_ran = false;
  (void)device().call_host(stream, [&] { later_work_ran = true; }).ok();
  const Status waited = device().synchronize_stream(stream);
  EXPECT_EQ(waited.kind(), StatusKind::kDeviceLost);
  EXPECT_NE(waited.message().find("0x1000"), std::string::npos) << waited.to_string();
  EXPECT_FALSE(later_work_ran);
}

TEST_F(FaultsTest, CopyOfUnmappedMemoryLosesTheDevice) {
  const MappedRange mapped = map_extents(device(), 1);
  ASSERT_TRUE(machine_->pause_stream(kFirst, kDefaultStream).ok());
  ASSERT_TRUE(device().fill(mapped.range.begin, 1, kMiB, kDefaultStream).ok());
  ASSERT_TRUE(device().unmap(mapped.range).ok());
  ASSERT_TRUE(machine_->resume_stream(kFirst, kDefaultStream).ok());
  EXPECT_EQ(device().synchronize_stream(kDefaultStream).kind(), StatusKind::kDeviceLost);
}

TEST(FaultsSeedTest, ProbabilitiesFollowTheSeed) {
  const auto failures = [](uint64_t seed) {
    Options options = small_options();
    options.seed = seed;
    const std::unique_ptr<Machine> machine = make_machine(options);
    machine->inject(
        {.call = DeviceCall::kMemoryStats, .count = FaultRule::kForever, .probability = 0.3});
    std::vector<bool> failed;
    for (int i = 0; i < 200; ++i) {
      failed.push_back(!machine->device(kFirst).memory_stats().ok());
    }
    return failed;
  };
  const std::vector<bool> once = failures(5);
  EXPECT_EQ(failures(5), once);
  EXPECT_NE(failures(6), once);
  const auto count = std::count(once.begin(), once.end(), true);
  EXPECT_GT(count, 30);
  EXPECT_LT(count, 90);
}

// Every function of `Device` goes through the interceptor, so an injected fault makes it fail.
TEST_F(FaultsTest, EveryCallCanFail) {
  Device& d = device();
  const DeviceAddress none;
  const StreamId stream = kDefaultStream;
  char byte = 0;
  using enum DeviceCall;
  expect_fails(kMemoryStats, [&] { return d.memory_stats().status(); });
  expect_fails(kProcesses, [&] { return d.processes().status(); });
  expect_fails(kAllocate, [&] { return d.allocate(1).status(); });
  expect_fails(kFree, [&] { return d.free(none); });
  expect_fails(kDescribe, [&] { return d.describe(none).status(); });
  expect_fails(kReserve, [&] { return d.reserve(2 * kMiB).status(); });
  expect_fails(kFreeAddresses, [&] { return d.free_addresses({}); });
  expect_fails(kCreate, [&] { return d.create(2 * kMiB).status(); });
  expect_fails(kRelease, [&] { return d.release(ExtentId(1)); });
  expect_fails(kMap, [&] { return d.map(none, ExtentId(1)); });
  expect_fails(kSetAccess, [&] { return d.set_access({}, kFirst, Access::kNone); });
  expect_fails(kUnmap, [&] { return d.unmap({}); });
  expect_fails(kExportFd, [&] { return d.export_fd(ExtentId(1)).status(); });
  expect_fails(kImportFd, [&] { return d.import_fd(-1, 1).status(); });
  expect_fails(kExportFabric, [&] { return d.export_fabric(ExtentId(1)).status(); });
  expect_fails(kImportFabric, [&] { return d.import_fabric({}, 1).status(); });
  expect_fails(kShareAllocation, [&] { return d.share_allocation(none).status(); });
  expect_fails(kOpenAllocation, [&] { return d.open_allocation({}).status(); });
  expect_fails(kCloseAllocation, [&] { return d.close_allocation(none); });
  expect_fails(kCanAccessPeer, [&] { return d.can_access_peer(kSecond).status(); });
  expect_fails(kEnablePeerAccess, [&] { return d.enable_peer_access(kSecond); });
  expect_fails(kDisablePeerAccess, [&] { return d.disable_peer_access(kSecond); });
  expect_fails(kAllocateHost, [&] { return d.allocate_host(1).status(); });
  expect_fails(kFreeHost, [&] { return d.free_host(&byte); });
  expect_fails(kRegisterHost, [&] { return d.register_host(&byte, 1); });
  expect_fails(kUnregisterHost, [&] { return d.unregister_host(&byte); });
  expect_fails(kCreateStream, [&] { return d.create_stream().status(); });
  expect_fails(kDestroyStream, [&] { return d.destroy_stream(stream); });
  expect_fails(kIsIdle, [&] { return d.is_idle(stream).status(); });
  expect_fails(kSynchronizeStream, [&] { return d.synchronize_stream(stream); });
  expect_fails(kSynchronizeDevice, [&] { return d.synchronize_device(); });
  expect_fails(kCreateEvent, [&] { return d.create_event().status(); });
  expect_fails(kDestroyEvent, [&] { return d.destroy_event(EventId(1)); });
  expect_fails(kRecordEvent, [&] { return d.record_event(EventId(1), stream); });
  expect_fails(kIsDone, [&] { return d.is_done(EventId(1)).status(); });
  expect_fails(kSynchronizeEvent, [&] { return d.synchronize_event(EventId(1)); });
  expect_fails(kWaitEvent, [&] { return d.wait_event(stream, EventId(1)); });
  expect_fails(kElapsedMs, [&] { return d.elapsed_ms(EventId(1), EventId(1)).status(); });
}

TEST_F(FaultsTest, EveryKindOfWorkCanFail) {
  Device& d = device();
  const DeviceAddress none;
  const StreamId stream = kDefaultStream;
  char byte = 0;
  using enum DeviceCall;
  expect_fails(kCopyToDevice, [&] { return d.copy_to_device(none, &byte, 1, stream); });
  expect_fails(kCopyToHost, [&] { return d.copy_to_host(&byte, none, 1, stream); });
  expect_fails(kCopy, [&] { return d.copy(none, none, 1, stream); });
  expect_fails(kCopyToPeer, [&] { return d.copy_to_peer(kSecond, none, none, 1, stream); });
  expect_fails(kFill, [&] { return d.fill(none, 0, 1, stream); });
  expect_fails(kCallHost, [&] { return d.call_host(stream, [] {}); });
  expect_fails(kAllocateAsync, [&] { return d.allocate_async(1, stream).status(); });
  expect_fails(kFreeAsync, [&] { return d.free_async(none, stream); });
  expect_fails(kDriverPoolStats, [&] { return d.driver_pool_stats().status(); });
  expect_fails(kResetPoolPeaks, [&] { return d.reset_pool_peaks(); });
  expect_fails(kSetPoolThreshold, [&] { return d.set_pool_threshold(0); });
  expect_fails(kTrimPool, [&] { return d.trim_pool(0); });
  expect_fails(kBeginCapture, [&] { return d.begin_capture(stream, CaptureMode::kGlobal); });
  expect_fails(kEndCapture, [&] { return d.end_capture(stream).status(); });
  expect_fails(kCaptureState, [&] { return d.capture_state(stream).status(); });
  expect_fails(kNodeDependencies, [&] { return d.node_dependencies(NodeId(1)).status(); });
  expect_fails(kExchangeCaptureMode,
               [&] { return d.exchange_capture_mode(CaptureMode::kGlobal).status(); });
  expect_fails(kLaunchGraph, [&] { return d.launch_graph(GraphId(1), stream); });
  expect_fails(kDestroyGraph, [&] { return d.destroy_graph(GraphId(1)); });
  expect_fails(kLaunch, [&] {
    return machine_->try_launch(kFirst, stream, [](const DeviceMemory&) { return Status(); });
  });
}

}  // namespace
}  // namespace ashlar::sim
