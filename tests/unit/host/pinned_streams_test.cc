// SPDX-License-Identifier: Apache-2.0
//
// Tests that blocks that streams use are reused only after the streams finish. The cache is
// last-in, first-out, so the next allocation of the same size reuses a finished block.
#include <atomic>
#include <thread>

#include "pinned_fixture.h"

namespace ashlar {
namespace {

using PinnedStreamsTest = PinnedTest;

TEST_F(PinnedStreamsTest, DoesNotReuseBlockWhileStreamIsBusy) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  free_used_on(block, stream);
  PinnedBlock* other = allocate(kPinnedBytes);
  EXPECT_NE(other, block);
  EXPECT_EQ(pinned().stats().pending_blocks.current, 1);
  finish(stream);
  EXPECT_EQ(allocate(kPinnedBytes), block);
  EXPECT_EQ(pinned().stats().pending_blocks.current, 0);
}

TEST_F(PinnedStreamsTest, FreesBlockImmediatelyOnIdleStream) {
  PinnedBlock* block = allocate(kPinnedBytes);
  free_used_on(block, *device().create_stream());
  EXPECT_EQ(pinned().stats().active_requests.current, 0);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedStreamsTest, WaitsForEveryStream) {
  const StreamId first = busy_stream();
  const StreamId second = busy_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  use_on(block, first);
  use_on(block, second);
  use_on(block, first);
  free(block);
  EXPECT_EQ(call_count(DeviceCall::kRecordEvent), 2U) << "one event per stream";
  finish(first);
  EXPECT_NE(allocate(kPinnedBytes), block);
  finish(second);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedStreamsTest, WaitsOnlyForWorkQueuedBeforeTheFree) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  free_used_on(block, stream);
  finish(stream);
  ASSERT_TRUE(machine_->pause_stream(sim::kFirst, stream).ok());
  ASSERT_TRUE(device().call_host(stream, [] {}).ok());
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedStreamsTest, SlowStreamDelaysOnlyItsOwnBlocks) {
  const StreamId slow = busy_stream();
  const StreamId fast = busy_stream();
  PinnedBlock* slow_block = allocate(kPinnedBytes);
  PinnedBlock* fast_block = allocate(kPinnedBytes);
  free_used_on(slow_block, slow);
  free_used_on(fast_block, fast);
  finish(fast);
  EXPECT_EQ(allocate(kPinnedBytes), fast_block);
  EXPECT_EQ(pinned().stats().pending_blocks.current, 1);
}

TEST_F(PinnedStreamsTest, FreeCollectsFinishedBlocks) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  PinnedBlock* other = allocate(kPinnedBytes);
  free_used_on(block, stream);
  finish(stream);
  free(other);
  EXPECT_EQ(pinned().stats().active_requests.current, 0);
}

TEST_F(PinnedStreamsTest, WaitsOnTheStreamsOwnDevice) {
  const StreamId stream = busy_stream_of(sim::kSecond);
  PinnedBlock* block = allocate(kPinnedBytes);
  use_on(block, {&other_device(), stream});
  free(block);
  EXPECT_NE(allocate(kPinnedBytes), block);
  finish_on(sim::kSecond, stream);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedStreamsTest, ReleasesLargeBlockAfterItsStreams) {
  options_.pinned.max_cached_bytes = 4 * kKiB;
  const StreamId stream = busy_stream();
  free_used_on(allocate(kPinnedBytes), stream);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 0U);
  finish(stream);
  free(allocate(kKiB));
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 1U);
}

TEST_F(PinnedStreamsTest, ReusesEvents) {
  const StreamId stream = busy_stream();
  for (int i = 0; i < 10; ++i) {
    free_used_on(allocate(kPinnedBytes), stream);
    finish(stream);
  }
  EXPECT_EQ(call_count(DeviceCall::kCreateEvent), 1U);
  allocator_.reset();
  EXPECT_EQ(call_count(DeviceCall::kDestroyEvent), 1U);
}

TEST_F(PinnedStreamsTest, AcceptsInteriorPointers) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  const DeviceStream use{&device(), stream};
  EXPECT_TRUE(*pinned().record_stream(block->memory.begin + block->bytes() - 1, use));
  free(block);
  EXPECT_NE(allocate(kPinnedBytes), block);
}

TEST_F(PinnedStreamsTest, IgnoresForeignMemory) {
  const DeviceStream use{&device(), busy_stream()};
  PinnedBlock* block = allocate(kPinnedBytes);
  PinnedBlock* freed = allocate(kPinnedBytes);
  free(freed);
  int foreign = 0;
  EXPECT_FALSE(*pinned().record_stream(&foreign, use));
  EXPECT_FALSE(*pinned().record_stream(static_cast<const void*>(nullptr), use));
  EXPECT_FALSE(*pinned().record_stream(freed->memory.begin, use));
  EXPECT_FALSE(*pinned().record_stream(block->memory.begin + block->bytes(), use));
  EXPECT_EQ(pinned().record_stream(freed, use).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(pinned().record_stream(block, {&device(), StreamId(12345)}).status().kind(),
            StatusKind::kInvalidArgument);
  EXPECT_EQ(pinned().record_stream(block, {}).status().kind(), StatusKind::kInvalidArgument);
  free(block);
  EXPECT_EQ(pinned().stats().active_requests.current, 0) << "nothing was recorded";
}

TEST_F(PinnedStreamsTest, RejectsPendingBlocks) {
  const StreamId stream = busy_stream();
  PinnedBlock* pending = allocate(kPinnedBytes);
  free_used_on(pending, stream);
  const StreamId capturing = *device().create_stream();
  PinnedBlock* in_graph = allocate(kPinnedBytes);
  ASSERT_TRUE(device().begin_capture(capturing, CaptureMode::kGlobal).ok());
  free_used_on(in_graph, capturing);
  ASSERT_TRUE(device().end_capture(capturing).ok());
  const auto before = pinned().stats().flatten();
  for (PinnedBlock* block : {pending, in_graph}) {
    const DeviceStream use{&device(), stream};
    EXPECT_EQ(pinned().free(block).kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(pinned().record_stream(block, use).status().kind(), StatusKind::kInvalidArgument);
    EXPECT_FALSE(*pinned().record_stream(block->memory.begin, use));
  }
  EXPECT_EQ(pinned().stats().flatten(), before);
  EXPECT_TRUE(pinned().validate().ok()) << pinned().validate().to_string();
  finish(stream);
  EXPECT_EQ(allocate(kPinnedBytes), pending);
}

TEST_F(PinnedStreamsTest, TrimWaitsForConcurrentCollection) {
  const StreamId stream = busy_stream();
  free_used_on(allocate(kPinnedBytes), stream);
  finish(stream);
  machine_->inject({.call = DeviceCall::kIsDone, .action = sim::FaultAction::kHang});
  std::thread collecting([&] { free(allocate(2 * kMiB)); });
  while (machine_->hung_call_count() == 0) std::this_thread::yield();
  std::atomic<bool> trimmed = false;
  std::thread trimming([&] {
    EXPECT_TRUE(pinned().trim().ok());
    trimmed = true;
  });
  // If the trim wrongly did not wait, it would set `trimmed` during this loop.
  for (int i = 0; i < 1000 && !trimmed; ++i) std::this_thread::yield();
  machine_->release_hung_calls();
  trimming.join();
  collecting.join();
  EXPECT_LE(pinned().stats().allocated_bytes.current, static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(pinned().stats().pending_blocks.current, 0);
}

class PinnedDestructorTest : public PinnedTest {
 protected:
  // Returns a block to which queued work on the stream writes.
  PinnedBlock* block_written_on(StreamId stream) {
    PinnedBlock* block = allocate(kPinnedBytes);
    use_on(block, stream);
    const auto write = [this, memory = block->memory.begin] {
      *memory = std::byte{1};
      was_pinned_ = call_count(DeviceCall::kFreeHost) == 0;
    };
    EXPECT_TRUE(device().call_host(stream, write).ok());
    return block;
  }

  // Destroys the allocator while the stream is busy, and expects that the destructor waits.
  void expect_end_waits_for(StreamId stream) {
    std::atomic<bool> is_destroyed = false;
    std::thread owner([&] {
      allocator_.reset();
      is_destroyed = true;
    });
    // If the destructor wrongly did not wait, it would return during this loop.
    for (int i = 0; i < 1000 && !is_destroyed; ++i) std::this_thread::yield();
    ASSERT_TRUE(machine_->resume_stream(sim::kFirst, stream).ok());
    owner.join();
    ASSERT_TRUE(device().synchronize_stream(stream).ok());
    EXPECT_TRUE(was_pinned_);
    EXPECT_EQ(call_count(DeviceCall::kFreeHost), 1U);
  }

 private:
  bool was_pinned_ = false;
};

TEST_F(PinnedDestructorTest, WaitsForStreamsOfLiveBlocks) {
  const StreamId stream = busy_stream();
  block_written_on(stream);
  expect_end_waits_for(stream);
}

TEST_F(PinnedDestructorTest, WaitsForStreamsOfPendingBlocks) {
  const StreamId stream = busy_stream();
  free(block_written_on(stream));
  expect_end_waits_for(stream);
}

TEST_F(PinnedDestructorTest, WaitsForStreamsWithoutEvents) {
  const StreamId stream = busy_stream();
  machine_->inject({.call = DeviceCall::kRecordEvent, .count = 2});
  free(block_written_on(stream));
  expect_end_waits_for(stream);
}

// --- failures

TEST_F(PinnedStreamsTest, DefersEventErrorAndRetries) {
  for (const DeviceCall call :
       {DeviceCall::kCreateEvent, DeviceCall::kRecordEvent, DeviceCall::kCaptureState}) {
    allocator_.reset();
    const StreamId stream = busy_stream();
    PinnedBlock* block = allocate(kPinnedBytes);
    use_on(block, stream);
    // Fails the call that the free makes, and its retry when the free polls pending blocks.
    machine_->inject({.call = call, .count = 2});
    free(block);
    EXPECT_EQ(pinned().stats().deferred_errors, 2) << name(call);
    EXPECT_EQ(pinned().allocate(kPinnedBytes).status().failed_call(), name(call));
    EXPECT_NE(allocate(kPinnedBytes), block) << name(call) << ": the stream is busy";
    finish(stream);
    EXPECT_EQ(allocate(kPinnedBytes), block) << name(call);
  }
}

TEST_F(PinnedStreamsTest, PollsOtherStreamsAfterAQueryError) {
  const StreamId first = busy_stream();
  const StreamId second = busy_stream();
  PinnedBlock* first_block = allocate(kPinnedBytes);
  PinnedBlock* second_block = allocate(kPinnedBytes);
  free_used_on(first_block, first);
  free_used_on(second_block, second);
  finish(first);
  finish(second);
  fail_next(DeviceCall::kIsDone);
  EXPECT_EQ(pinned().allocate(kPinnedBytes).status().failed_call(), "is_done");
  EXPECT_EQ(pinned().stats().pending_blocks.current, 1);
  EXPECT_EQ(allocate(kPinnedBytes), first_block);
  EXPECT_EQ(allocate(kPinnedBytes), second_block);
}

TEST_F(PinnedStreamsTest, TrimReclaimsBlocksOfDestroyedStreams) {
  options_.pinned.max_cached_bytes = kPinnedBytes;
  const StreamId stream = *device().create_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  use_on(block, stream);
  ASSERT_TRUE(device().destroy_stream(stream).ok());
  free(block);
  EXPECT_EQ(pinned().allocate(kPinnedBytes).status().kind(), StatusKind::kInvalidArgument)
      << "reported once";
  EXPECT_NE(allocate(kPinnedBytes), block);
  EXPECT_EQ(call_count(DeviceCall::kSynchronizeDevice), 0U);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(call_count(DeviceCall::kSynchronizeDevice), 1U);
  EXPECT_EQ(pinned().stats().pending_blocks.current, 0);
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 1U);
}

TEST_F(PinnedStreamsTest, TrimReclaimsBlocksWithLostEvents) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  free_used_on(block, stream);
  finish(stream);
  fail_next(DeviceCall::kIsDone, Status::invalid_argument("injected: no such event"));
  EXPECT_EQ(pinned().allocate(kPinnedBytes).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_NE(allocate(kPinnedBytes), block);
  EXPECT_EQ(pinned().stats().pending_blocks.current, 1);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(pinned().stats().pending_blocks.current, 0);
}

TEST_F(PinnedStreamsTest, ReclaimsBlocksAfterDeviceRecovers) {
  const StreamId stream = busy_stream();
  free_used_on(allocate(kPinnedBytes), stream);
  machine_->lose(sim::kFirst, Status::device_lost("work", 1, "injected"));
  EXPECT_EQ(pinned().allocate(kPinnedBytes).status().kind(), StatusKind::kDeviceLost);
  EXPECT_EQ(pinned().trim().kind(), StatusKind::kDeviceLost);
  EXPECT_TRUE(pinned().validate().ok());
  machine_->revive(sim::kFirst);
  finish(stream);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(pinned().stats().allocations.current, 0);
}

}  // namespace
}  // namespace ashlar
