// SPDX-License-Identifier: Apache-2.0
//
// Tests that misses are served from idle memory, through new addresses if needed, and that only the
// missing bytes come from the device.
#include <algorithm>

#include "ashlar/pool.h"
#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

class StitcherTest : public PagedFixture {
 protected:
  uint64_t waits() const {
    return calls(DeviceCall::kSynchronizeStream) + calls(DeviceCall::kSynchronizeEvent) +
           calls(DeviceCall::kSynchronizeDevice);
  }
};

TEST_F(StitcherTest, ServesLargeRequestFromHoles) {
  start();
  leave_holes(8 * kMiB, 16);
  const int64_t reserved = stats().reserved_bytes.all.current;
  reset_call_counts();
  EXPECT_NE(allocate(48 * kMiB), nullptr);
  EXPECT_EQ(calls(DeviceCall::kCreate), 0U);
  EXPECT_EQ(calls(DeviceCall::kAllocate), 0U);
  EXPECT_EQ(stats().reserved_bytes.all.current, reserved);
  EXPECT_EQ(stats().stitches, 1);
}

// The engine queries whether the stream is idle, which determines the charge for mapping. It must
// skip the query if the stream is capturing, and relax the thread's capture mode otherwise.
TEST_F(StitcherTest, LeavesUnannouncedCapturesIntact) {
  start();
  const StreamId stream = new_stream();
  leave_holes(8 * kMiB, 16, stream);
  for (const StreamId captured : {new_stream(), stream}) {
    reset_call_counts();
    must(device().begin_capture(captured, CaptureMode::kGlobal));
    EXPECT_NE(allocate(24 * kMiB, stream), nullptr);
    EXPECT_GT(calls(DeviceCall::kMap), 0U);
    EXPECT_EQ(calls(DeviceCall::kCreate), 0U);
    EXPECT_EQ(calls(DeviceCall::kIsIdle) > 0, captured != stream);
    EXPECT_EQ(device().capture_state(captured)->status, CaptureStatus::kActive);
    must(device().end_capture(captured).status());
  }
}

TEST_F(StitcherTest, ToleratesFailingIdleQueries) {
  for (const DeviceCall call : {DeviceCall::kIsIdle, DeviceCall::kExchangeCaptureMode}) {
    start();
    leave_holes(8 * kMiB, 16);
    machine_->inject({.call = call, .count = sim::FaultRule::kForever});
    EXPECT_NE(allocate(24 * kMiB), nullptr);
    must(engine_->validate());
  }
}

// Drivers reuse stream ids. If a stream that was found destroyed allocates again, it lends again.
TEST_F(StitcherTest, RevivedStreamLendsAgain) {
  start();
  const StreamId lender = new_stream();
  free(allocate(64 * kMiB, lender));
  machine_->inject(
      {.call = DeviceCall::kRecordEvent, .status = Status::invalid_argument("destroyed")});
  EXPECT_NE(allocate(48 * kMiB), nullptr);
  const int64_t reserved = stats().reserved_bytes.all.current;
  EXPECT_GT(reserved, static_cast<int64_t>(100 * kMiB)) << "the lender could not be ordered";
  EXPECT_NE(allocate(48 * kMiB), nullptr) << "the lender is not used again";
  EXPECT_GT(stats().reserved_bytes.all.current, reserved);

  Block* more = allocate(100 * kMiB, lender);
  free(more);
  const int64_t held = stats().reserved_bytes.all.current;
  EXPECT_NE(allocate(96 * kMiB), nullptr);
  EXPECT_EQ(stats().reserved_bytes.all.current, held);
}

TEST_F(StitcherTest, CreatesOnlyMissingMemory) {
  start();
  leave_holes(8 * kMiB, 8);
  const int64_t before = stats().reserved_bytes.all.current;
  allocate(64 * kMiB);
  const int64_t more = stats().reserved_bytes.all.current - before;
  EXPECT_GT(more, 0);
  EXPECT_LE(more, static_cast<int64_t>(48 * kMiB));
}

// New extents are larger if the typical block is large, so that large blocks do not consist of too
// many extents.
TEST_F(StitcherTest, LargeBlocksGetLargerExtents) {
  const auto extents_of_one_more = [&](size_t typical_bytes) {
    start({}, 16 * kGiB);
    for (size_t i = 0; i < 4 * kGiB / typical_bytes; ++i) allocate(typical_bytes);
    reset_call_counts();
    allocate(512 * kMiB);
    return calls(DeviceCall::kCreate);
  };
  EXPECT_NEAR(static_cast<double>(extents_of_one_more(16 * kMiB)), 320 / 9.0, 4) << "a 320th each";
  EXPECT_NEAR(static_cast<double>(extents_of_one_more(512 * kMiB)), 160 / 9.0, 2) << "a 160th";
}

TEST_F(StitcherTest, NewMemoryIsContiguous) {
  start();  // the engine's first view has addresses for a quarter of the memory
  std::vector<Block*> blocks;
  for (const size_t mib : {6, 40, 10, 24, 2, 18}) blocks.push_back(allocate(mib * kMiB));
  for (Block* block : blocks) free(block);
  reset_call_counts();
  EXPECT_NE(allocate(100 * kMiB), nullptr);
  EXPECT_EQ(calls(DeviceCall::kMap) + calls(DeviceCall::kCreate), 0U);
}

TEST_F(StitcherTest, ReusesStitchedAddressesWithoutDriverCalls) {
  start();
  const std::vector<Block*> left = leave_holes(8 * kMiB, 16);
  Block* large = allocate(48 * kMiB);
  const DeviceAddress address = large->address;
  free(large);
  std::vector<Block*> small;
  for (int i = 0; i < 6; ++i) small.push_back(allocate(8 * kMiB));
  for (Block* block : small) free(block);
  reset_call_counts();
  EXPECT_EQ(allocate(48 * kMiB)->address, address);
  EXPECT_EQ(calls(DeviceCall::kMap) + calls(DeviceCall::kCreate) + calls(DeviceCall::kUnmap), 0U);
  EXPECT_EQ(stats().stitches, 1) << "only the first time";
}

TEST_F(StitcherTest, ReturnsDisplacedExtentsToTheirOrigin) {
  start();
  leave_holes(8 * kMiB, 16);
  Block* before = allocate(8 * kMiB);
  const DeviceAddress origin = before->address;
  free(before);
  Block* large = allocate(64 * kMiB);  // stitched from all idle memory
  const DeviceAddress stitched_at = large->address;
  free(large);
  reset_call_counts();
  Block* again = allocate(8 * kMiB);
  EXPECT_NE(again->address, stitched_at) << "not split off the stitched range";
  std::vector<Block*> all = {again};
  while (all.size() < 8) all.push_back(allocate(8 * kMiB));
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [&](const Block* block) { return block->address == origin; }));
  EXPECT_TRUE(engine_->validate().ok());
  for (Block* block : all) free(block);
  EXPECT_EQ(allocate(64 * kMiB)->address, stitched_at);
  EXPECT_EQ(calls(DeviceCall::kMap) + calls(DeviceCall::kCreate), 0U);
}

TEST_F(StitcherTest, LeanPolicyKeepsDisplacedExtents) {
  AllocatorOptions options;
  options.policy = PagedPolicy::kLean;
  start(options);
  leave_holes(8 * kMiB, 16);
  Block* large = allocate(64 * kMiB);
  const AddressRange stitched{large->address, large->bytes};
  free(large);
  EXPECT_TRUE(stitched.contains({allocate(8 * kMiB)->address, 8 * kMiB}));
}

TEST_F(StitcherTest, RepeatedPatternNeedsNoDriverCalls) {
  for (const PagedPolicy policy :
       {PagedPolicy::kFast, PagedPolicy::kBalanced, PagedPolicy::kLean}) {
    AllocatorOptions options;
    options.policy = policy;
    start(options);
    ManualClock clock;
    engine_ = std::make_unique<PagedEngine>(device(), options, &clock);
    constexpr int kRounds = 60;
    for (int round = 0; round < kRounds; ++round) {
      if (round == kRounds / 2) reset_call_counts();
      std::vector<Block*> live;
      for (size_t i = 1; i <= 20; ++i) {
        live.push_back(allocate(i * 700 * kKiB));
        if (i % 3 == 0) {
          free(live[i / 2]);
          live[i / 2] = allocate(i * kMiB + 512);
        }
      }
      for (Block* block : live) free(block);
      clock.advance_ns(10'000'000);  // so that the planning budget is not used up
    }
    for (size_t i = 0; i < kDeviceCallCount; ++i) {
      const auto call = static_cast<DeviceCall>(i);
      EXPECT_EQ(calls(call), 0U) << name(call) << ", policy " << static_cast<int>(policy);
    }
    engine_.reset();
  }
}

TEST_F(StitcherTest, BorrowsWithAnEventAndNoHostWait) {
  start();
  const StreamId other = new_stream();
  free(allocate(64 * kMiB, other));
  reset_call_counts();
  allocate(64 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kCreate), 0U);
  EXPECT_EQ(calls(DeviceCall::kRecordEvent), 1U);
  EXPECT_EQ(calls(DeviceCall::kWaitEvent), 1U);
  EXPECT_EQ(waits(), 0U);
}

TEST_F(StitcherTest, OrdersLenderBeforeBorrower) {
  start();
  const StreamId lender = busy_stream();
  const StreamId borrower = new_stream();
  free(allocate(64 * kMiB, lender));
  reset_call_counts();
  allocate(64 * kMiB, borrower);
  EXPECT_EQ(calls(DeviceCall::kCreate), 0U);
  EXPECT_EQ(calls(DeviceCall::kIsIdle), 0U) << "lenders are ordered whether idle or not";
  EXPECT_EQ(waits(), 0U);
  bool is_done = false;
  must(device().call_host(borrower, [&] { is_done = true; }));
  while (machine_->step()) {
  }
  EXPECT_FALSE(is_done) << "the borrower did not wait for the lender";
  finish(lender);
  must(device().synchronize_stream(borrower));
  EXPECT_TRUE(is_done);
}

TEST_F(StitcherTest, FastPolicyDoesNotBorrowFromBusyStream) {
  AllocatorOptions options;
  options.policy = PagedPolicy::kFast;
  start(options);
  const StreamId lender = busy_stream();
  free(allocate(64 * kMiB, lender));
  reset_call_counts();
  allocate(64 * kMiB);
  EXPECT_GT(calls(DeviceCall::kCreate), 0U);
  EXPECT_EQ(calls(DeviceCall::kWaitEvent), 0U);
  finish(lender);
}

TEST_F(StitcherTest, DoesNotBorrowPendingBlocks) {
  start();
  const StreamId user = busy_stream();
  Block* block = allocate(64 * kMiB);
  use_on(block, user);
  free(block);
  reset_call_counts();
  allocate(64 * kMiB);
  EXPECT_GT(calls(DeviceCall::kCreate), 0U);
  finish(user);
}

TEST_F(StitcherTest, NeverRemapPoolMapsEachExtentOnce) {
  start();
  PoolOptions options;
  options.never_remap = true;
  make_pool(kPool, options);
  route(kPool);
  const StreamId other = new_stream();
  leave_holes(8 * kMiB, 16);
  allocate(48 * kMiB);
  leave_holes(8 * kMiB, 4, other);
  allocate(30 * kMiB, other);
  EXPECT_EQ(calls(DeviceCall::kMap), calls(DeviceCall::kCreate));
  EXPECT_EQ(calls(DeviceCall::kWaitEvent), 0U);
  end_route(kPool);
}

TEST_F(StitcherTest, DeviceWithoutAliasingUsesPlainSegments) {
  start_on_plain_device();
  leave_holes(8 * kMiB, 16);
  EXPECT_EQ(calls(DeviceCall::kMap) + calls(DeviceCall::kCreate), 0U);
  EXPECT_GT(calls(DeviceCall::kAllocate), 0U);
  EXPECT_GT(stats().segment.all.current, 0);
  const Result<Block*> allocation_error = engine_->allocate({2 * kGiB, kDefaultStream});
  ASSERT_TRUE(allocation_error.status().is_out_of_memory());
  EXPECT_NE(allocation_error.status().message().find("plain segments"), std::string::npos);
}

TEST_F(StitcherTest, NeverHandsOutInaccessibleMemory) {
  start();
  machine_->inject({.call = DeviceCall::kSetAccess});
  machine_->inject({.call = DeviceCall::kUnmap});
  EXPECT_FALSE(engine_->allocate({8 * kMiB, kDefaultStream}).ok());
  EXPECT_FALSE(engine_->allocate({8 * kMiB, kDefaultStream}).ok()) << "the deferred unmap error";
  const Block* block = allocate(8 * kMiB);
  must(device().fill(block->address, 1, block->bytes, kDefaultStream));
}

TEST_F(StitcherTest, RestoreWaitsIfNoEventCanBeRecorded) {
  start();
  route(kPool);
  const StreamId lender = new_stream();
  Block* block = allocate(64 * kMiB);
  const Result<PoolCheckpoint> checkpoint = engine_->checkpoint(kPool);
  ASSERT_TRUE(checkpoint.ok());
  free(block);
  free(allocate(64 * kMiB, lender));
  reset_call_counts();
  machine_->inject({.call = DeviceCall::kRecordEvent});
  const Result<RestoreResult> change = engine_->restore(*checkpoint);
  ASSERT_TRUE(change.ok()) << change.status().to_string();
  ASSERT_EQ(change->allocated.size(), 1U);
  EXPECT_EQ(change->allocated.front()->stream, kDefaultStream) << "it belongs to another stream";
  EXPECT_EQ(calls(DeviceCall::kSynchronizeDevice), 1U);
  end_route(kPool);
}

TEST_F(StitcherTest, ShareableViewFitsALargeExtent) {
  AllocatorOptions options;
  options.shareable_expandable_segments = true;
  start(options, 64 * kMiB);
  allocate(kMiB + 1);
}

}  // namespace
}  // namespace ashlar::paged
