// SPDX-License-Identifier: Apache-2.0
//
// Tests of allocation and freeing: reuse, invalid input, limits, host memory that runs out, and
// locking.
#include "host/pinned_allocator.h"

#include <cstring>
#include <functional>
#include <thread>

#include "pinned_fixture.h"

namespace ashlar {
namespace {

using PinnedAllocatorTest = PinnedTest;

Status host_full() { return Status::out_of_memory("injected: the host is full"); }

TEST_F(PinnedAllocatorTest, ReturnsWritablePinnedMemory) {
  PinnedBlock* block = allocate(100'000);
  ASSERT_GE(block->bytes(), 100'000U);
  std::memset(block->memory.begin, 7, block->bytes());
  const DeviceAddress at(reinterpret_cast<uint64_t>(block->memory.begin));
  EXPECT_EQ(device().describe(at)->kind, MemoryKind::kHost);
}

TEST_F(PinnedAllocatorTest, ReusesFreedBlockWithoutDeviceCall) {
  PinnedBlock* block = allocate(kMiB);
  std::byte* memory = block->memory.begin;
  free(block);
  const int64_t before = machine_->costs(sim::kFirst).total_ns;
  EXPECT_EQ(allocate(kMiB)->memory.begin, memory);
  EXPECT_EQ(machine_->costs(sim::kFirst).total_ns, before);
}

TEST_F(PinnedAllocatorTest, LiveBlocksDoNotOverlap) {
  PinnedBlock* first = allocate(kMiB);
  PinnedBlock* second = allocate(kMiB);
  const std::byte* low = std::min(first->memory.begin, second->memory.begin);
  const std::byte* high = std::max(first->memory.begin, second->memory.begin);
  EXPECT_GE(high - low, static_cast<ptrdiff_t>(kMiB));
}

TEST_F(PinnedAllocatorTest, RejectsInvalidInputWithoutChange) {
  allocate(kMiB);
  PinnedBlock* freed = allocate(2 * kMiB);
  free(freed);
  const std::unique_ptr<PinnedAllocator> other =
      *PinnedAllocator::create(other_device(), options_, clock_);
  PinnedBlock* foreign = *other->allocate(kMiB);
  const auto before = pinned().stats().flatten();
  EXPECT_EQ(pinned().allocate(0).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(pinned().free(nullptr).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(pinned().free(freed).kind(), StatusKind::kInvalidArgument) << "double free";
  EXPECT_EQ(pinned().free(foreign).kind(), StatusKind::kInvalidArgument) << "another device's";
  EXPECT_EQ(pinned().stats().flatten(), before);
  EXPECT_TRUE(pinned().validate().ok()) << pinned().validate().to_string();
}

TEST_F(PinnedAllocatorTest, ReportsOutOfMemoryForHugeRequests) {
  for (const size_t bytes : {size_t{1} << 60, size_t{1} << 59, SIZE_MAX}) {
    EXPECT_EQ(pinned().allocate(bytes).status().kind(), StatusKind::kOutOfMemory) << bytes;
  }
  EXPECT_EQ(pinned().stats().ooms, 3);
}

TEST_F(PinnedAllocatorTest, ReleasesBlocksAboveTheCacheLimit) {
  options_.pinned.max_cached_bytes = kMiB;
  PinnedBlock* small = allocate(kMiB);
  PinnedBlock* large = allocate(kMiB + 1);
  free(small);
  free(large);
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 1U);
  EXPECT_EQ(pinned().stats().allocated_bytes.current, static_cast<int64_t>(kMiB));
  EXPECT_TRUE(pinned().validate().ok()) << pinned().validate().to_string();
}

TEST_F(PinnedAllocatorTest, RoundsToPowersOfTwoOnlyInCompatMode) {
  EXPECT_EQ(allocate(5 * kMiB)->bytes(), 5 * kMiB);
  allocator_.reset();
  options_.pytorch_compatible = true;
  EXPECT_EQ(allocate(5 * kMiB)->bytes(), 8 * kMiB);
}

TEST_F(PinnedAllocatorTest, TrimReleasesOnlyFreeBlocks) {
  PinnedBlock* used = allocate(kMiB);
  free(allocate(2 * kMiB));
  free(allocate(4 * kMiB));
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 2U);
  EXPECT_EQ(pinned().stats().allocated_bytes.current, static_cast<int64_t>(used->bytes()));
  std::memset(used->memory.begin, 1, used->bytes());
}

TEST_F(PinnedAllocatorTest, DestructorReleasesLiveBlocks) {
  allocate(kMiB);
  free(allocate(2 * kMiB));
  allocator_.reset();
  EXPECT_EQ(call_count(DeviceCall::kAllocateHost), 2U);
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 2U);
}

// --- host memory that runs out

TEST_F(PinnedAllocatorTest, RetriesAfterReleasingTheCache) {
  free(allocate(16 * kMiB));
  fail_next(DeviceCall::kAllocateHost, host_full());
  EXPECT_NE(allocate(kMiB), nullptr);
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 1U);
  EXPECT_EQ(pinned().stats().alloc_retries, 1);
  EXPECT_EQ(pinned().stats().ooms, 0);
}

TEST_F(PinnedAllocatorTest, OutOfMemoryMessageHasNumbers) {
  const StreamId stream = busy_stream();
  free_used_on(allocate(3 * kMiB), stream);
  PinnedBlock* block = allocate(2 * kMiB);
  machine_->inject({.call = DeviceCall::kAllocateHost, .count = 2, .status = host_full()});
  const Status full = pinned().allocate(kMiB).status();
  EXPECT_EQ(full.kind(), StatusKind::kOutOfMemory);
  for (const char* part : {"1.00 MiB of pinned memory for device 0", "the host is full",
                           "holds 5.00 MiB in 2 blocks", "3.00 MiB of those were freed and wait"}) {
    EXPECT_NE(full.message().find(part), std::string::npos) << part << " in: " << full.message();
  }
  EXPECT_EQ(pinned().stats().ooms, 1);
  EXPECT_TRUE(pinned().validate().ok());
  EXPECT_NE(allocate(kMiB), block) << "the next call succeeds";
}

// Runs a hook when the time is read. The allocator reads the time right before it calls the
// device.
class ClockWithHook final : public Clock {
 public:
  int64_t now_ns() override {
    if (hook) hook();
    return 0;
  }
  void sleep_ns(int64_t) override {}

  std::function<void()> hook;
};

TEST_F(PinnedAllocatorTest, CollectsFinishedBlocksBeforeReleasingTheCache) {
  ClockWithHook clock;
  allocator_ = *PinnedAllocator::create(device(), options_, clock);
  const StreamId stream = busy_stream();
  PinnedBlock* used = allocate(kMiB);
  free(allocate(64 * kMiB));
  free_used_on(used, stream);
  clock.hook = [&] { finish(stream); };
  fail_next(DeviceCall::kAllocateHost, host_full());
  EXPECT_EQ(allocate(kMiB), used);
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 0U) << "the cache was released needlessly";
  EXPECT_EQ(pinned().stats().alloc_retries, 0);
  clock.hook = nullptr;
  allocator_.reset();
}

TEST_F(PinnedAllocatorTest, PassesOnOtherHostErrors) {
  free(allocate(16 * kMiB));
  fail_next(DeviceCall::kAllocateHost);
  EXPECT_EQ(pinned().allocate(kMiB).status().kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 0U);
}

// --- deferred errors

TEST_F(PinnedAllocatorTest, DefersReleaseErrorAndKeepsTheBlock) {
  options_.pinned.max_cached_bytes = kMiB;
  PinnedBlock* large = allocate(2 * kMiB);
  fail_next(DeviceCall::kFreeHost);
  free(large);
  const Status reported = pinned().allocate(kMiB).status();
  EXPECT_EQ(reported.kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(reported.failed_call(), "free_host");
  EXPECT_EQ(pinned().stats().deferred_errors, 1);
  EXPECT_EQ(pinned().stats().allocations.current, 1);
  EXPECT_TRUE(pinned().validate().ok()) << pinned().validate().to_string();
  EXPECT_TRUE(pinned().trim().ok()) << "reported once";
  EXPECT_EQ(pinned().stats().allocations.current, 0);
}

TEST_F(PinnedAllocatorTest, TrimReportsReleaseErrors) {
  free(allocate(kMiB));
  free(allocate(2 * kMiB));
  fail_next(DeviceCall::kFreeHost);
  EXPECT_EQ(pinned().trim().kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(pinned().stats().allocations.current, 1) << "the other one was released";
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(pinned().stats().allocations.current, 0);
}

// --- locking

// While one device call blocks, other calls on the allocator still proceed.
class PinnedLockTest : public PinnedTest, public ::testing::WithParamInterface<DeviceCall> {};

TEST_P(PinnedLockTest, HoldsNoLockDuringDeviceCalls) {
  options_.pinned.max_cached_bytes = kMiB;
  const StreamId stream = busy_stream();
  PinnedBlock* pending = allocate(kMiB);
  free_used_on(pending, stream);
  PinnedBlock* used = allocate(512 * kKiB);
  use_on(used, stream);
  PinnedBlock* large = allocate(8 * kMiB);
  free(allocate(64 * kKiB));
  machine_->inject({.call = GetParam(), .action = sim::FaultAction::kHang});
  std::thread caller([&] {
    EXPECT_TRUE(pinned().allocate(2 * kMiB).ok());
    EXPECT_TRUE(pinned().free(used).ok());
    EXPECT_TRUE(pinned().free(large).ok());
  });
  while (machine_->hung_call_count() == 0) std::this_thread::yield();
  free(allocate(64 * kKiB));
  EXPECT_GT(pinned().stats().active_requests.current, 0);
  machine_->release_hung_calls();
  caller.join();
}

INSTANTIATE_TEST_SUITE_P(Calls, PinnedLockTest,
                         ::testing::Values(DeviceCall::kAllocateHost, DeviceCall::kFreeHost,
                                           DeviceCall::kRecordEvent, DeviceCall::kIsDone),
                         [](const auto& each) { return std::string(name(each.param)); });

}  // namespace
}  // namespace ashlar
