// SPDX-License-Identifier: Apache-2.0
//
// Tests of pausing and resuming pools: what is kept, which work is waited for, and the state after
// a failure. The file is long because a pause affects every operation of the engine.
#include <gtest/gtest.h>

#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

class PoolPauserTest : public PagedBytesFixture {
 protected:
  void SetUp() override {
    PagedBytesFixture::SetUp();
    make_tagged();
  }
  void make_tagged() {
    PoolOptions options;
    options.tag = "weights";
    make_pool(kPool, options);
    route(kPool);
  }
  void TearDown() override {
    if (engine_->pool_use_count(kPool).ok()) (void)engine_->end_routing(kPool).ok();
    PagedBytesFixture::TearDown();
  }

  // Returns small and large blocks, some in stitched views, each filled with a different value.
  std::vector<Block*> live_blocks() {
    const StreamId side = new_stream();
    std::vector<Block*> gaps;
    std::vector<Block*> live;
    for (size_t i = 0; i < 6; ++i) {
      live.push_back(allocate(700 * (i + 1)));
      gaps.push_back(allocate(7 * kMiB));
      live.push_back(allocate(3 * kMiB, side));
      live.push_back(allocate(5 * kMiB));
    }
    for (Block* gap : gaps) free(gap);
    live.push_back(allocate(30 * kMiB));
    for (size_t i = 0; i < live.size(); ++i) fill(live[i], value_of(i));
    return live;
  }
  // Like live_blocks, but with a few MiB in total, for tests that need blocks hundreds of times.
  std::vector<Block*> few_live_blocks() {
    Block* gap = allocate(4 * kMiB);
    std::vector<Block*> live = {allocate(700), allocate(2 * kMiB, new_stream())};
    free(gap);
    live.push_back(allocate(5 * kMiB));
    for (size_t i = 0; i < live.size(); ++i) fill(live[i], value_of(i));
    return live;
  }
  static uint8_t value_of(size_t i) { return static_cast<uint8_t>(i + 1); }
  void expect_contents(const std::vector<Block*>& live) {
    for (size_t i = 0; i < live.size(); ++i) EXPECT_TRUE(contains(live[i], value_of(i))) << i;
  }
  Status pause() { return engine_->pause("weights", false); }
  Status pause_and_keep() { return engine_->pause("weights", true); }
  Status resume() { return engine_->resume("weights"); }
};

TEST_F(PoolPauserTest, ReleasesMemoryAndKeepsAddresses) {
  const std::vector<Block*> live = live_blocks();
  const size_t reserved = reserved_bytes();
  ASSERT_GT(reserved, 70 * kMiB);
  must(pause());
  EXPECT_EQ(reserved_bytes(), 0U);
  EXPECT_EQ(used_bytes(), 0U);
  expect_valid();
  must(resume());
  EXPECT_EQ(reserved_bytes(), reserved);
  EXPECT_EQ(used_bytes(), reserved);
  for (size_t i = 0; i < live.size(); ++i) fill(live[i], value_of(i));
  expect_contents(live);
}

TEST_F(PoolPauserTest, RestoresContentsFromBackup) {
  const std::vector<Block*> live = live_blocks();
  must(pause_and_keep());
  EXPECT_EQ(used_bytes(), 0U);
  must(resume());
  expect_contents(live);
  EXPECT_EQ(calls(DeviceCall::kAllocateHost), calls(DeviceCall::kFreeHost));
}

TEST_F(PoolPauserTest, ResumesAllMappingsOfStitchedViews) {
  std::vector<Block*> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(allocate(20 * kMiB));
  for (Block* part : parts) free(part);
  Block* whole = allocate(75 * kMiB);
  free(whole);
  must(pause_and_keep());
  must(resume());
  const uint64_t creates = calls(DeviceCall::kCreate);
  const uint64_t maps = calls(DeviceCall::kMap);
  for (Block*& part : parts) part = allocate(20 * kMiB);
  for (size_t i = 0; i < parts.size(); ++i) fill(parts[i], value_of(i));
  expect_contents(parts);
  EXPECT_EQ(calls(DeviceCall::kCreate), creates);
  EXPECT_EQ(calls(DeviceCall::kMap), maps);
}

TEST_F(PoolPauserTest, PauseAndResumeAreIdempotent) {
  const std::vector<Block*> live = live_blocks();
  const auto count = [&] {
    uint64_t sum = 0;
    for (const DeviceCall call : {DeviceCall::kMap, DeviceCall::kUnmap, DeviceCall::kCreate,
                                  DeviceCall::kRelease, DeviceCall::kCopyToHost}) {
      sum += calls(call);
    }
    return sum;
  };
  must(pause_and_keep());
  const uint64_t after_pause = count();
  must(pause_and_keep());
  must(pause());
  EXPECT_EQ(count(), after_pause);
  must(resume());
  expect_contents(live);
  const uint64_t after_resume = count();
  must(resume());
  EXPECT_EQ(count(), after_resume);
}

TEST_F(PoolPauserTest, WaitsOnlyForWorkOnItsBlocks) {
  end_route(kPool);
  const StreamId other_stream = busy_stream();
  Block* other = allocate(2 * kMiB, other_stream);
  route(kPool);
  const StreamId stream = new_stream();
  Block* block = allocate(2 * kMiB, stream);
  must(pause());
  must(resume());

  must(machine_->pause_stream(kDevice, stream));
  fill(block, 7);
  EXPECT_FALSE(pause_and_keep().ok()) << "its own stream is busy";
  EXPECT_EQ(engine_->block_memory(block).origin, BlockMemory::Origin::kExtents)
      << "it is not paused";
  finish(stream);
  must(pause_and_keep());
  must(resume());
  EXPECT_TRUE(contains(block, 7));

  must(engine_->record_stream(block, {&device(), other_stream}));
  EXPECT_FALSE(pause().ok()) << "a stream that uses it is busy";
  finish(other_stream);
  must(pause());
  must(resume());
  free(block);
  free(other);
}

TEST_F(PoolPauserTest, WaitsForPendingFrees) {
  const StreamId busy = busy_stream();
  Block* block = allocate(2 * kMiB);
  must(engine_->record_stream(block, {&device(), busy}));
  free(block);
  EXPECT_FALSE(pause().ok());
  EXPECT_GT(used_bytes(), 0U);
  finish(busy);
  must(pause());
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(PoolPauserTest, PausedPoolFreesButDoesNotAllocate) {
  Block* block = allocate(2 * kMiB);
  must(pause());
  const Status allocation_error = engine_->allocate({1000, kDefaultStream}).status();
  expect_kind(allocation_error, StatusKind::kInvalidArgument);
  EXPECT_NE(allocation_error.to_string().find("weights"), std::string::npos)
      << allocation_error.to_string();
  end_route(kPool);
  Block* outside = allocate(2 * kMiB);
  free(block);
  EXPECT_EQ(engine_->stats().allocation.all.current, 1);
  must(resume());
  route(kPool);
  const uint64_t creates = calls(DeviceCall::kCreate);
  Block* again = allocate(2 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kCreate), creates) << "the freed memory is reused";
  free(again);
  free(outside);
}

TEST_F(PoolPauserTest, RefusesPinnedBlocks) {
  Block* block = allocate(2 * kMiB);
  engine_->pin(block);
  const Status allocation_error = pause();
  expect_kind(allocation_error, StatusKind::kInvalidArgument);
  EXPECT_NE(allocation_error.to_string().find("shared"), std::string::npos)
      << allocation_error.to_string();
  EXPECT_GT(used_bytes(), 0U);
  engine_->unpin(block);
  must(pause());
  EXPECT_EQ(engine_->block_memory(block).origin, BlockMemory::Origin::kPaused);
  free(block);
}

TEST_F(PoolPauserTest, RefusesWhileAStreamCaptures) {
  const StreamId stream = new_stream();
  Block* block = allocate(2 * kMiB, stream);
  engine_->capture_began();
  must(device().begin_capture(stream, CaptureMode::kRelaxed));
  expect_kind(pause(), StatusKind::kInvalidArgument);
  EXPECT_TRUE(device().end_capture(stream).ok());
  must(engine_->capture_ended());
  must(pause());
  free(block);
}

TEST_F(PoolPauserTest, RefusesInvalidRequestsWithoutEffect) {
  allocate(2 * kMiB);
  expect_kind(engine_->pause("", false), StatusKind::kInvalidArgument);
  expect_kind(engine_->pause("activations", false), StatusKind::kInvalidArgument);
  expect_kind(engine_->resume("activations"), StatusKind::kInvalidArgument);
  PoolOptions never;
  never.tag = "weights";
  never.never_remap = true;
  expect_kind(engine_->create_pool({0, 7}, never), StatusKind::kInvalidArgument);
  EXPECT_GT(used_bytes(), 0U);
}

TEST_F(PoolPauserTest, PoolOfWholeSegmentsCannotHaveATag) {
  PoolOptions whole;
  whole.tag = "weights";
  whole.no_split = true;
  const Status refused = engine_->create_pool({0, 8}, whole);
  expect_kind(refused, StatusKind::kInvalidArgument);
  EXPECT_NE(refused.message().find("no_split"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("weights"), std::string::npos) << refused.message();
  PoolOptions tagged;
  tagged.tag = "weights";
  make_pool({0, 8}, tagged);
  expect_kind(engine_->set_pool_no_split({0, 8}), StatusKind::kInvalidArgument);
  allocate(2 * kMiB);
  must(pause());
  must(resume());
}

TEST_F(PoolPauserTest, RefusesUncachedBlocks) {
  engine_->set_caching(false);
  Block* block = allocate(2 * kMiB);
  engine_->set_caching(true);
  expect_kind(pause(), StatusKind::kUnsupported);
  free(block);
  must(pause());
}

TEST_F(PoolPauserTest, TrimDestroysReleasedPausedPool) {
  const std::vector<Block*> live = live_blocks();
  must(pause_and_keep());
  end_route(kPool);
  must(engine_->release_pool(kPool));
  must(engine_->release_pool(kPool));
  must(engine_->trim());
  EXPECT_TRUE(engine_->pool_use_count(kPool).ok()) << "it has live blocks";
  expect_valid();
  for (Block* block : live) free(block);
  must(engine_->trim());
  EXPECT_FALSE(engine_->pool_use_count(kPool).ok());
  EXPECT_EQ(calls(DeviceCall::kAllocateHost), calls(DeviceCall::kFreeHost));
  EXPECT_EQ(calls(DeviceCall::kReserve), calls(DeviceCall::kFreeAddresses));
}

TEST_F(PoolPauserTest, TracesUnmappingAndMapping) {
  live_blocks();
  size_t unmapped_bytes = 0;
  size_t mapped_bytes = 0;
  engine_->add_tracker([&](const TraceEntry& entry) {
    if (entry.action == TraceAction::kSegmentUnmap) unmapped_bytes += entry.bytes;
    if (entry.action == TraceAction::kSegmentMap) mapped_bytes += entry.bytes;
  });
  const size_t reserved = reserved_bytes();
  must(pause());
  EXPECT_EQ(unmapped_bytes, reserved);
  EXPECT_EQ(mapped_bytes, 0U);
  must(resume());
  EXPECT_EQ(mapped_bytes, reserved);
  EXPECT_FALSE(engine_->segments(kPool).empty());
}

TEST_F(PoolPauserTest, SnapshotShowsPausedSegments) {
  const Block* block = allocate(5 * kMiB);
  free(allocate(9 * kMiB));
  const auto segments_now = [&] {
    std::vector<SnapshotSegment> segments = engine_->segments(kPool);
    EXPECT_FALSE(segments.empty());
    return segments;
  };
  const std::vector<SnapshotSegment> before = segments_now();
  must(pause());
  std::vector<SnapshotSegment> paused = segments_now();
  size_t reserved = 0;
  bool is_shown = false;
  for (SnapshotSegment& segment : paused) {
    EXPECT_TRUE(segment.is_paused);
    reserved += segment.reserved_bytes();
    for (const SnapshotBlock& each : segment.blocks) {
      is_shown = is_shown ||
                 (each.address == block->address && each.state == SnapshotBlockState::kAllocated);
    }
    segment.is_paused = false;
  }
  EXPECT_TRUE(is_shown);
  EXPECT_EQ(reserved, reserved_bytes());
  EXPECT_EQ(paused, before);
  EXPECT_EQ(engine_->stats().inactive_split_bytes.all.current, 0) << "a paused pool has no memory";
  must(resume());
  EXPECT_EQ(segments_now(), before);
}

TEST_F(PoolPauserTest, GrantsAccessorsAddedWhilePaused) {
  Block* block = allocate(2 * kMiB);
  must(pause());
  must(engine_->add_accessor(DeviceIndex(1)));
  must(resume());
  EXPECT_TRUE(machine_->memory(DeviceIndex(1)).try_view<uint8_t>(block->address, 2 * kMiB).ok());
}

TEST_F(PoolPauserTest, ResumeTrimsOtherPools) {
  start({}, 100 * kMiB);
  make_tagged();
  Block* block = allocate(60 * kMiB);
  fill(block, 9);
  must(pause_and_keep());
  end_route(kPool);
  free(allocate(80 * kMiB));
  must(resume());
  EXPECT_TRUE(contains(block, 9));
}

TEST_F(PoolPauserTest, ResumeCanBeRetriedAfterOom) {
  start({}, 100 * kMiB);
  make_tagged();
  Block* block = allocate(60 * kMiB);
  fill(block, 9);
  must(pause_and_keep());
  end_route(kPool);
  Block* other = allocate(80 * kMiB);
  expect_kind(resume(), StatusKind::kOutOfMemory);
  expect_valid();
  free(other);
  must(resume());
  EXPECT_TRUE(contains(block, 9));
}

TEST_F(PoolPauserTest, ResumeRespectsTheMemoryLimit) {
  start({}, 100 * kMiB);
  make_tagged();
  allocate(60 * kMiB);
  must(pause());
  must(engine_->set_memory_fraction(0.5));
  expect_kind(resume(), StatusKind::kOutOfMemory);
  must(engine_->set_memory_fraction(1));
  must(resume());
}

TEST_F(PoolPauserTest, KeepsHostMemoryWhileCopiesRun) {
  fill(allocate(2 * kMiB), 1);
  const StreamId before = new_stream();
  must(pause_and_keep());
  must(resume());
  const StreamId copy_stream(before.value() + 1);
  ASSERT_EQ(new_stream().value(), before.value() + 2) << "the engine created one stream";
  reset_call_counts();
  must(machine_->pause_stream(kDevice, copy_stream));
  // The first wait is for the block's stream. The waits for the copies fail.
  machine_->inject({.call = DeviceCall::kSynchronizeStream, .nth = 2, .count = 2});
  EXPECT_FALSE(pause_and_keep().ok());
  EXPECT_EQ(calls(DeviceCall::kAllocateHost), 1U);
  EXPECT_EQ(calls(DeviceCall::kFreeHost), 0U);
  must(machine_->resume_stream(kDevice, copy_stream));
  must(device().synchronize_stream(copy_stream));
  trim();
  EXPECT_EQ(calls(DeviceCall::kFreeHost), 1U);
}

TEST_F(PoolPauserTest, StaysUsableIfTheFirstUnmapFails) {
  const std::vector<Block*> live = few_live_blocks();
  must(device().synchronize_device());
  machine_->inject({.call = DeviceCall::kUnmap});
  expect_kind(pause_and_keep(), StatusKind::kDeviceFault);
  expect_valid();
  expect_contents(live);
  free(allocate(20 * kMiB));
  must(engine_->trim());
  EXPECT_EQ(calls(DeviceCall::kAllocateHost), calls(DeviceCall::kFreeHost));
  must(pause_and_keep());
  EXPECT_EQ(used_bytes(), 0U);
  must(resume());
  expect_contents(live);
}

// Each call of each kind fails once. Afterwards the transition can be completed or reverted.
TEST_F(PoolPauserTest, RecoversFromEveryDeviceFailure) {
  for (const DeviceCall call :
       {DeviceCall::kUnmap, DeviceCall::kRelease, DeviceCall::kCreate, DeviceCall::kMap,
        DeviceCall::kSetAccess, DeviceCall::kAllocateHost, DeviceCall::kFreeHost,
        DeviceCall::kCopyToHost, DeviceCall::kCopyToDevice, DeviceCall::kSynchronizeStream,
        DeviceCall::kIsIdle, DeviceCall::kCreateStream}) {
    for (const bool resumes_first : {false, true}) {
      for (uint64_t nth = 1; nth < 40; ++nth) {
        SCOPED_TRACE(testing::Message() << name(call) << " " << nth << " " << resumes_first);
        start();
        make_tagged();
        const std::vector<Block*> live = few_live_blocks();
        must(device().synchronize_device());
        const size_t reserved = reserved_bytes();
        machine_->inject({.call = call, .nth = nth});
        const bool paused = pause_and_keep().ok();
        expect_valid();
        const bool resumed = resume().ok();
        expect_valid();
        machine_->clear_faults();
        if (!resumes_first) {
          must(pause_and_keep());
          EXPECT_EQ(used_bytes(), 0U);
        }
        must(resume());
        expect_contents(live);
        EXPECT_EQ(reserved_bytes(), reserved);
        EXPECT_EQ(used_bytes(), reserved);
        (void)engine_->trim().ok();  // reports a failed free_host, and retries it
        EXPECT_EQ(calls(DeviceCall::kAllocateHost), calls(DeviceCall::kFreeHost));
        if (testing::Test::HasFailure()) return;
        if (paused && resumed) break;  // no call, or only free_host, triggered the fault
      }
    }
  }
}

TEST_F(PoolPauserTest, ThousandCyclesLeakNothing) {
  Block* block = allocate(2 * kMiB);
  allocate(4000);
  fill(block, 3);
  must(pause_and_keep());
  must(resume());
  const size_t used = used_bytes();
  const size_t reserved = reserved_bytes();
  const size_t views = engine_->expandable_segments().size();
  const uint64_t reservations = calls(DeviceCall::kReserve);
  const uint64_t streams = calls(DeviceCall::kCreateStream);
  const uint64_t mappings = calls(DeviceCall::kMap) - calls(DeviceCall::kUnmap);
  for (int i = 0; i < 1000; ++i) {
    must(i % 4 == 0 ? pause_and_keep() : pause());
    must(resume());
    if (i % 4 == 3) fill(block, 3);
  }
  EXPECT_TRUE(contains(block, 3));
  EXPECT_EQ(used_bytes(), used);
  EXPECT_EQ(reserved_bytes(), reserved);
  EXPECT_EQ(engine_->expandable_segments().size(), views);
  EXPECT_EQ(calls(DeviceCall::kReserve), reservations);
  EXPECT_EQ(calls(DeviceCall::kCreateStream), streams);
  EXPECT_EQ(calls(DeviceCall::kMap) - calls(DeviceCall::kUnmap), mappings);
  EXPECT_EQ(calls(DeviceCall::kAllocateHost), calls(DeviceCall::kFreeHost));
}

}  // namespace
}  // namespace ashlar::paged
