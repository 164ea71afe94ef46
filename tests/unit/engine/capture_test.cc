// SPDX-License-Identifier: Apache-2.0
//
// Tests of frees during a capture: a free is deferred, unless the graph proves that the block can
// be reused safely.
#include <gtest/gtest.h>

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

class CaptureTest : public ClassicFixture {
 protected:
  void start_capture(bool reuse) {
    AllocatorOptions options;
    options.capture_stream_reuse = reuse;
    start(options);
    main_ = new_stream();
    side_ = new_stream();
    route(kGraphPool);
    engine_->capture_began();
    must(device().begin_capture(main_, CaptureMode::kThreadLocal));
  }
  void end_capture() {
    must(device().end_capture(main_).status());
    must(engine_->capture_ended());
    end_route(kGraphPool);
  }
  void work(StreamId stream) {
    must(device().call_host(stream, [] {}));
  }
  // Makes the next work on `then` wait for the work queued on `first`.
  void order(StreamId first, StreamId then) {
    const EventId event = *device().create_event();
    must(device().record_event(event, first));
    must(device().wait_event(then, event));
    must(device().destroy_event(event));
  }
  // Frees a block of the main stream that the side stream used.
  DeviceAddress free_block_used_on_both() {
    Block* block = allocate(kMiB, main_);
    const DeviceAddress address = block->address;
    work(main_);
    order(main_, side_);
    work(side_);
    use_on(block, side_);
    free(block);
    return address;
  }

  StreamId main_;
  StreamId side_;
};

TEST_F(CaptureTest, DefersFreeUntilCaptureEnds) {
  start_capture(false);
  const DeviceAddress at = free_block_used_on_both();
  order(side_, main_);
  EXPECT_NE(allocate(kMiB, main_)->address, at);
  EXPECT_EQ(stats().active.all.current, 2);
  end_capture();
  free(allocate(kMiB, main_));
  EXPECT_EQ(stats().active.all.current, 1) << "no event is needed: the graph has the use";
  EXPECT_EQ(calls(DeviceCall::kIsDone), 0u);
}

TEST_F(CaptureTest, OutsideAllocationLeavesFreesDeferred) {
  start_capture(false);
  const DeviceAddress at = free_block_used_on_both();
  order(side_, main_);
  allocate(512);  // uses a stream outside the capture
  EXPECT_NE(allocate(kMiB, main_)->address, at);
  EXPECT_EQ(stats().active.all.current, 3);
  end_capture();
}

TEST_F(CaptureTest, TrimDoesNotInvalidateCapture) {
  start();
  const PoolId released{0, 9};
  const StreamId captured = new_stream();
  route(released);
  cache(20 * kMiB);
  end_route(released);
  must(engine_->release_pool(released));
  Block* pending = allocate(20 * kMiB);
  use_on(pending, new_stream());
  engine_->capture_began();
  must(device().begin_capture(captured, CaptureMode::kGlobal));
  free(pending);
  trim();
  EXPECT_EQ(calls(DeviceCall::kFree), 1U) << "of the released pool";
  must(device().end_capture(captured).status());
  must(engine_->capture_ended());
}

TEST_F(CaptureTest, ReusesBlockOnlyAfterItsLastUseInGraph) {
  start_capture(true);
  const DeviceAddress at = free_block_used_on_both();
  Block* before = allocate(kMiB, main_);
  EXPECT_NE(before->address, at)
      << "the main stream is not ordered after the side stream's use yet";
  order(side_, main_);
  EXPECT_EQ(allocate(kMiB, main_)->address, at);
  end_capture();
}

TEST_F(CaptureTest, DoesNotReuseBlockUsedOutsideCapture) {
  start_capture(true);
  const StreamId outside = busy_stream();
  Block* block = allocate(kMiB, main_);
  const DeviceAddress at = block->address;
  work(main_);
  use_on(block, outside);
  free(block);
  work(main_);
  EXPECT_NE(allocate(kMiB, main_)->address, at);
  end_capture();
  EXPECT_NE(allocate(kMiB, main_)->address, at) << "the outside stream still uses it";
  finish(outside);
  free(allocate(512, main_));
  EXPECT_EQ(stats().active.all.current, 2);
}

TEST_F(CaptureTest, DoesNotReuseBlockUsedInAnotherCapture) {
  start_capture(true);
  const StreamId elsewhere = new_stream();
  engine_->capture_began();
  must(device().begin_capture(elsewhere, CaptureMode::kThreadLocal));
  Block* block = allocate(kMiB, main_);
  const DeviceAddress at = block->address;
  work(main_);
  use_on(block, elsewhere);  // `elsewhere` has no graph node yet
  free(block);
  work(main_);
  EXPECT_NE(allocate(kMiB, main_)->address, at);
  must(device().end_capture(elsewhere).status());
  must(engine_->capture_ended());
  end_capture();
  free(allocate(512));
  EXPECT_EQ(stats().active.all.current, 1) << "both captures are over";
}

TEST_F(CaptureTest, CapturingStreamDoesNotFlushCache) {
  start();
  cache(30 * kMiB);
  main_ = new_stream();
  engine_->capture_began();
  must(device().begin_capture(main_, CaptureMode::kThreadLocal));
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  EXPECT_EQ(allocation_error(40 * kMiB, main_).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(stats().alloc_retries, 0);
  EXPECT_EQ(calls(DeviceCall::kFree), 0U);
  must(device().end_capture(main_).status());
  must(engine_->capture_ended());
}

TEST_F(CaptureTest, ReleasesMemoryAfterCapture) {
  start();
  main_ = new_stream();
  route(kGraphPool);
  cache(30 * kMiB, main_);
  end_route(kGraphPool);
  must(engine_->release_pool(kGraphPool));
  engine_->capture_began();
  must(device().begin_capture(main_, CaptureMode::kThreadLocal));
  trim();
  EXPECT_EQ(calls(DeviceCall::kFree), 0U) << "its stream cannot be waited for";
  EXPECT_EQ(device().capture_state(main_)->status, CaptureStatus::kActive);
  must(device().end_capture(main_).status());
  must(engine_->capture_ended());
  trim();
  EXPECT_EQ(calls(DeviceCall::kFree), 1U);
}

TEST_F(CaptureTest, UseBeforeCaptureStillNeedsEvent) {
  start();
  main_ = new_stream();
  const StreamId busy = busy_stream();
  Block* block = allocate(kMiB, main_);
  const DeviceAddress at = block->address;
  use_on(block, busy);
  engine_->capture_began();
  must(device().begin_capture(main_, CaptureMode::kThreadLocal));
  free(block);
  must(device().end_capture(main_).status());
  must(engine_->capture_ended());
  EXPECT_NE(allocate(kMiB, main_)->address, at);
  finish(busy);
  EXPECT_EQ(allocate(kMiB, main_)->address, at);
}

TEST_F(CaptureTest, UseBeforeAndDuringCaptureNeedsEvent) {
  start();
  const StreamId busy = busy_stream();
  Block* block = allocate(kMiB);
  const DeviceAddress at = block->address;
  use_on(block, busy);
  engine_->capture_began();
  must(device().begin_capture(busy, CaptureMode::kThreadLocal));
  use_on(block, busy);
  free(block);
  must(device().end_capture(busy).status());
  must(engine_->capture_ended());
  EXPECT_NE(allocate(kMiB)->address, at);
  finish(busy);
  EXPECT_EQ(allocate(kMiB)->address, at);
}

TEST_F(CaptureTest, UseDuringAndAfterCaptureNeedsEvent) {
  start();
  const StreamId used = new_stream();
  Block* block = allocate(kMiB);
  const DeviceAddress at = block->address;
  const auto capture = [&](bool is_first) {
    engine_->capture_began();
    must(device().begin_capture(used, CaptureMode::kThreadLocal));
    is_first ? use_on(block, used) : free(block);
    must(device().end_capture(used).status());
    must(engine_->capture_ended());
  };
  capture(true);
  keep_busy(device(), used);
  use_on(block, used);
  capture(false);
  EXPECT_NE(allocate(kMiB)->address, at);
  finish(used);
  EXPECT_EQ(allocate(kMiB)->address, at);
}

TEST_F(CaptureTest, DeviceAllocationDoesNotInvalidateCapture) {
  start_capture(false);
  allocate(32 * kMiB, main_);
  EXPECT_EQ(device().capture_state(main_)->status, CaptureStatus::kActive);
  end_capture();
}

TEST_F(CaptureTest, PollingOtherStreamsDoesNotInvalidateCapture) {
  start_capture(true);
  free_block_used_on_both();
  const StreamId bystander = new_stream();
  free(allocate(kMiB, bystander));
  free(allocate(kMiB, bystander));
  EXPECT_EQ(device().capture_state(main_)->status, CaptureStatus::kActive);
  order(side_, main_);
  end_capture();
}

TEST_F(CaptureTest, RejectsUnmatchedCaptureEnd) {
  start();
  EXPECT_EQ(engine_->capture_ended().kind(), StatusKind::kInvalidArgument);
  engine_->capture_began();
  EXPECT_TRUE(engine_->capture_ended().ok());
}

// The engine does not count captures on other devices, so the free queries the stream instead.
TEST_F(CaptureTest, DefersFreeForCaptureOnAnotherDevice) {
  start();
  Device& other = machine_->device(DeviceIndex(1));
  const StreamId capturing = *other.create_stream();
  Block* block = allocate(kMiB);
  const DeviceAddress at = block->address;
  must(engine_->record_stream(block, {&other, capturing}));
  must(other.begin_capture(capturing, CaptureMode::kThreadLocal));
  free(block);
  EXPECT_NE(allocate(kMiB)->address, at);
  trim();
  EXPECT_EQ(stats().active.all.current, 2) << "still set aside";
  const Result<GraphId> graph = other.end_capture(capturing);
  must(graph.status());
  EXPECT_EQ(machine_->costs(DeviceIndex(1)).count_of(DeviceCall::kRecordEvent), 0U)
      << "the graph must contain none of our nodes";
  EXPECT_EQ(allocate(kMiB)->address, at);
}

TEST_F(CaptureTest, DestroyedPeerStreamIsNotCapturing) {
  start();
  Device& other = machine_->device(DeviceIndex(1));
  const StreamId destroyed = *other.create_stream();
  Block* block = allocate(kMiB);
  must(engine_->record_stream(block, {&other, destroyed}));
  must(other.destroy_stream(destroyed));
  free(block);
  trim();
  EXPECT_EQ(stats().active.all.current, 0);
}

}  // namespace
}  // namespace ashlar::classic
