// SPDX-License-Identifier: Apache-2.0
//
// Tests with captures: the allocator never invalidates a capture, and memory that a graph may use
// is kept until release_capture.
#include <thread>

#include "pinned_fixture.h"

namespace ashlar {
namespace {

class PinnedCaptureTest : public PinnedTest {
 protected:
  CaptureId begin(StreamId stream, CaptureMode mode = CaptureMode::kGlobal) {
    EXPECT_TRUE(device().begin_capture(stream, mode).ok());
    return device().capture_state(stream)->capture;
  }
  GraphId end(StreamId stream) {
    const Result<GraphId> graph = device().end_capture(stream);
    EXPECT_TRUE(graph.ok()) << "the capture was disturbed: " << graph.status().to_string();
    return graph.ok() ? *graph : GraphId();
  }
  // Returns a block that was used and freed during a capture, which has ended.
  PinnedBlock* freed_in_capture(StreamId stream, CaptureId* capture) {
    PinnedBlock* block = allocate(kPinnedBytes);
    *capture = begin(stream);
    free_used_on(block, stream);
    end(stream);
    return block;
  }
};

TEST_F(PinnedCaptureTest, AllocateAndReleaseDoNotInvalidateCaptures) {
  options_.pinned.max_cached_bytes = kMiB;
  for (const bool use_host_register : {false, true}) {
    options_.pinned.use_host_register = use_host_register;
    allocator_.reset();
    const StreamId stream = *device().create_stream();
    begin(stream);
    free(allocate(kPinnedBytes));
    free(allocate(2 * kMiB));
    EXPECT_TRUE(pinned().trim().ok());
    end(stream);
    EXPECT_EQ(pinned().stats().allocations.current, 0);
  }
}

TEST_F(PinnedCaptureTest, PollingDoesNotInvalidateCaptures) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  free_used_on(block, stream);
  const StreamId capturing = *device().create_stream();
  begin(capturing);
  EXPECT_NE(allocate(kPinnedBytes), block);
  finish(stream);
  EXPECT_EQ(allocate(kPinnedBytes), block);
  end(capturing);
}

TEST_F(PinnedCaptureTest, RestoresTheThreadsCaptureMode) {
  const StreamId stream = *device().create_stream();
  begin(stream);
  allocate(kPinnedBytes);
  EXPECT_FALSE(device().allocate_host(kPinnedBytes).ok()) << "the thread stayed relaxed";
  EXPECT_FALSE(device().end_capture(stream).ok());
}

TEST_F(PinnedCaptureTest, KeepsBlocksUsedByAGraph) {
  const StreamId stream = *device().create_stream();
  CaptureId capture;
  PinnedBlock* block = freed_in_capture(stream, &capture);
  EXPECT_NE(allocate(kPinnedBytes), block);
  EXPECT_TRUE(pinned().trim().ok());
  const HostStats stats = pinned().stats();
  EXPECT_EQ(stats.graph_blocks.current, 1);
  EXPECT_EQ(stats.graph_bytes.current, static_cast<int64_t>(block->bytes()));
  EXPECT_EQ(stats.active_requests.current, 2);
  EXPECT_EQ(call_count(DeviceCall::kRecordEvent), 0U) << "an event would become part of the graph";
  EXPECT_TRUE(pinned().validate().ok()) << pinned().validate().to_string();
}

TEST_F(PinnedCaptureTest, ReusesBlockAfterReleaseCapture) {
  const StreamId stream = *device().create_stream();
  CaptureId capture;
  PinnedBlock* block = freed_in_capture(stream, &capture);
  pinned().release_capture(capture);
  EXPECT_EQ(pinned().stats().graph_blocks.current, 0);
  EXPECT_EQ(pinned().stats().active_requests.current, 0);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedCaptureTest, WaitsForRunningGraphLaunches) {
  const StreamId stream = *device().create_stream();
  CaptureId capture;
  PinnedBlock* block = freed_in_capture(stream, &capture);
  const DeviceStream launched_on{&device(), busy_stream()};
  pinned().release_capture(capture, std::span(&launched_on, 1));
  EXPECT_EQ(pinned().stats().graph_blocks.current, 0);
  EXPECT_NE(allocate(kPinnedBytes), block);
  finish(launched_on.stream);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedCaptureTest, WaitsForEveryCaptureOfABlock) {
  const StreamId stream = *device().create_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  const CaptureId first = begin(stream);
  use_on(block, stream);
  use_on(block, stream);
  end(stream);
  CaptureId second = begin(stream);
  use_on(block, stream);
  end(stream);
  free(block);
  pinned().release_capture(first);
  EXPECT_EQ(pinned().stats().graph_blocks.current, 1);
  pinned().release_capture(first);
  EXPECT_EQ(pinned().stats().graph_blocks.current, 1) << "released twice is released once";
  pinned().release_capture(second);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedCaptureTest, LiveBlockOutlivesItsGraph) {
  const StreamId stream = *device().create_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  const CaptureId capture = begin(stream);
  use_on(block, stream);
  end(stream);
  pinned().release_capture(capture);
  EXPECT_EQ(pinned().stats().active_requests.current, 1);
  free(block);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedCaptureTest, WaitsForWorkQueuedBeforeTheCapture) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  use_on(block, stream);
  begin(stream);
  free(block);
  EXPECT_NE(allocate(kPinnedBytes), block);
  EXPECT_EQ(call_count(DeviceCall::kRecordEvent), 0U) << "it would have been captured";
  end(stream);
  EXPECT_NE(allocate(kPinnedBytes), block) << "the stream is still busy";
  EXPECT_EQ(call_count(DeviceCall::kRecordEvent), 1U);
  finish(stream);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedCaptureTest, WaitsForEarlierWorkAfterReleaseCapture) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  use_on(block, stream);
  const CaptureId capture = begin(stream);
  use_on(block, stream);
  free(block);
  end(stream);
  pinned().release_capture(capture);
  EXPECT_NE(allocate(kPinnedBytes), block);
  finish(stream);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedCaptureTest, FreeDoesNotInvalidateACaptureThatBeginsMeanwhile) {
  const StreamId stream = *device().create_stream();
  PinnedBlock* block = allocate(kPinnedBytes);
  use_on(block, stream);
  machine_->inject({.call = DeviceCall::kRecordEvent, .action = sim::FaultAction::kHang});
  std::thread freeing([&] { free(block); });
  while (machine_->hung_call_count() == 0) std::this_thread::yield();
  begin(stream);
  machine_->release_hung_calls();
  freeing.join();
  EXPECT_NE(allocate(kPinnedBytes), block) << "no event is done yet";
  end(stream);
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedCaptureTest, InvalidatedCaptureKeepsNoBlocks) {
  const StreamId stream = *device().create_stream();
  begin(stream);
  EXPECT_FALSE(device().synchronize_stream(stream).ok());
  PinnedBlock* block = allocate(kPinnedBytes);
  free_used_on(block, stream);
  EXPECT_EQ(pinned().stats().graph_blocks.current, 0);
  EXPECT_NE(allocate(kPinnedBytes), block) << "no event is done yet";
  EXPECT_FALSE(device().end_capture(stream).ok());
  EXPECT_EQ(allocate(kPinnedBytes), block);
}

TEST_F(PinnedCaptureTest, DestructorReleasesBlocksOfUnreleasedCaptures) {
  const StreamId stream = *device().create_stream();
  CaptureId capture;
  freed_in_capture(stream, &capture);
  allocator_.reset();
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 1U);
}

}  // namespace
}  // namespace ashlar
