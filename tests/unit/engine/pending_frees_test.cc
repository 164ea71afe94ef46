// SPDX-License-Identifier: Apache-2.0
//
// Tests of PendingFrees without an engine: which blocks become free, in which order, and with which
// device calls.
#include "engine/pending_frees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "sim_fixture.h"

namespace ashlar {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr StreamId kOwn = kDefaultStream;

class PendingFreesTest : public SimFixture {
 protected:
  void SetUp() override {
    make_machine();
    start(false);
  }
  void start(bool reuse_within_captures) {
    frees_ = std::make_unique<PendingFrees>(device(), reuse_within_captures);
  }
  void fail(DeviceCall call, uint64_t nth = 1) { machine_->inject({.call = call, .nth = nth}); }

  // --- streams and captures

  void work(StreamId stream) { SimFixture::work(device(), stream); }
  // Makes the next work on `then` wait for the work queued on `first`.
  void order(StreamId first, StreamId then) {
    const EventId event = *device().create_event();
    must(device().record_event(event, first));
    must(device().wait_event(then, event));
    must(device().destroy_event(event));
  }
  void begin_capture(StreamId stream) {
    frees_->capture_began();
    must(device().begin_capture(stream, CaptureMode::kThreadLocal));
  }
  void end_capture(StreamId stream) {
    must(device().end_capture(stream).status());
    must(frees_->capture_ended());
  }

  // --- blocks

  Block* new_block(StreamId stream = kOwn) {
    blocks_.emplace_back();
    blocks_.back().stream = stream;
    return &blocks_.back();
  }
  void use(Block* block, StreamId stream) { frees_->record_use(block, {&device(), stream}); }
  // Returns a new block that was freed after a use on the stream.
  Block* freed_after_use_on(StreamId stream) {
    Block* block = new_block();
    use(block, stream);
    must(frees_->add(block));
    return block;
  }
  std::vector<Block*> collect() {
    std::vector<Block*> finished;
    must(frees_->collect(finished));
    return finished;
  }
  std::vector<Block*> collect_for_stream(StreamId stream) {
    std::vector<Block*> finished;
    must(frees_->collect_for_stream(stream, finished));
    return finished;
  }
  std::vector<Block*> wait(const std::function<bool(const Block&)>& wanted = {}) {
    std::vector<Block*> finished;
    must(frees_->wait(finished, wanted));
    return finished;
  }

  std::deque<Block> blocks_;
  std::unique_ptr<PendingFrees> frees_;
};

TEST_F(PendingFreesTest, CollectsDeferredFreesFirst) {
  const StreamId busy = busy_stream();
  const StreamId captured = new_stream();
  Block* pending = freed_after_use_on(busy);
  begin_capture(captured);
  Block* first = freed_after_use_on(captured);
  Block* second = freed_after_use_on(captured);
  end_capture(captured);
  finish(busy);
  EXPECT_THAT(collect(), ElementsAre(first, second, pending));
  EXPECT_TRUE(frees_->empty());
}

TEST_F(PendingFreesTest, GraphOnlyUseNeedsNoEvent) {
  const StreamId captured = new_stream();
  begin_capture(captured);
  Block* block = freed_after_use_on(captured);
  EXPECT_THAT(collect(), IsEmpty());
  end_capture(captured);
  EXPECT_THAT(collect(), ElementsAre(block));
  EXPECT_TRUE(block->uses.empty());
  EXPECT_EQ(calls(DeviceCall::kRecordEvent), 0U);
}

TEST_F(PendingFreesTest, FreeAfterCaptureRecordsEvent) {
  const StreamId captured = new_stream();
  Block* block = new_block();
  begin_capture(captured);
  use(block, captured);
  end_capture(captured);
  must(frees_->add(block));
  EXPECT_EQ(calls(DeviceCall::kRecordEvent), 1U);
  must(device().synchronize_stream(captured));
  EXPECT_THAT(collect(), ElementsAre(block));
}

TEST_F(PendingFreesTest, CollectDeferredPollsNoEvent) {
  const StreamId busy = busy_stream();
  const StreamId captured = new_stream();
  Block* pending = freed_after_use_on(busy);
  begin_capture(captured);
  Block* set_aside = freed_after_use_on(captured);
  end_capture(captured);
  finish(busy);
  std::vector<Block*> finished;
  must(frees_->collect_deferred(finished));
  EXPECT_THAT(finished, ElementsAre(set_aside));
  EXPECT_EQ(calls(DeviceCall::kIsDone), 0U);
  EXPECT_THAT(collect(), ElementsAre(pending));
}

TEST_F(PendingFreesTest, CapturingStreamPollsNoEvent) {
  const StreamId busy = busy_stream();
  const StreamId captured = new_stream();
  Block* pending = freed_after_use_on(busy);
  finish(busy);
  begin_capture(captured);
  EXPECT_THAT(collect_for_stream(captured), IsEmpty());
  EXPECT_EQ(calls(DeviceCall::kIsDone), 0U);
  EXPECT_THAT(collect_for_stream(busy), ElementsAre(pending))
      << "a stream outside the capture polls";
  end_capture(captured);
}

TEST_F(PendingFreesTest, NoDeviceCallsWithoutPendingFrees) {
  const StreamId captured = new_stream();
  begin_capture(captured);
  const uint64_t asked = calls(DeviceCall::kCaptureState);
  EXPECT_THAT(collect_for_stream(captured), IsEmpty());
  EXPECT_EQ(calls(DeviceCall::kCaptureState), asked);
  end_capture(captured);
}

// --- failures

TEST_F(PendingFreesTest, KeepsBlocksFoundBeforeFailure) {
  const StreamId busy = busy_stream();
  const StreamId captured = new_stream();
  begin_capture(captured);
  Block* first = freed_after_use_on(captured);
  Block* second = new_block(captured);
  use(second, busy);
  must(frees_->add(second));
  Block* third = freed_after_use_on(captured);
  end_capture(captured);
  fail(DeviceCall::kRecordEvent);
  std::vector<Block*> finished;
  EXPECT_EQ(frees_->collect(finished).kind(), StatusKind::kDeviceFault);
  EXPECT_THAT(finished, ElementsAre(first));
  EXPECT_THAT(collect(), ElementsAre(third));
  finish(busy);
  EXPECT_THAT(collect(), ElementsAre(second));
}

TEST_F(PendingFreesTest, WaitsForUnrecordedEvents) {
  const StreamId one = busy_stream();
  const StreamId two = busy_stream();
  Block* block = new_block();
  use(block, one);
  use(block, two);
  fail(DeviceCall::kRecordEvent, 2);
  EXPECT_EQ(frees_->add(block).kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(calls(DeviceCall::kRecordEvent), 1U);
  finish(two);
  EXPECT_THAT(collect(), IsEmpty()) << "now the other stream has its event, too";
  EXPECT_EQ(calls(DeviceCall::kRecordEvent), 2U);
  finish(one);
  EXPECT_THAT(collect(), ElementsAre(block));
}

TEST_F(PendingFreesTest, UnknownCaptureStateCountsAsCapturing) {
  const StreamId stream = new_stream();
  frees_->capture_began();
  fail(DeviceCall::kCaptureState);
  EXPECT_TRUE(frees_->is_capturing({&device(), stream}));
  EXPECT_FALSE(frees_->is_capturing({&device(), stream}));
}

// --- waiting

TEST_F(PendingFreesTest, WaitsForSelectedBlocksOnly) {
  const StreamId one = new_stream();
  const StreamId two = busy_stream();
  Block* wanted = freed_after_use_on(one);
  Block* other = freed_after_use_on(two);
  EXPECT_THAT(wait([&](const Block& block) { return &block == wanted; }), ElementsAre(wanted));
  EXPECT_FALSE(frees_->empty());
  finish(two);
  EXPECT_THAT(wait(), ElementsAre(other));
}

TEST_F(PendingFreesTest, DoesNotWaitForDeferredFrees) {
  const StreamId captured = new_stream();
  begin_capture(captured);
  Block* block = freed_after_use_on(captured);
  EXPECT_THAT(wait(), IsEmpty());
  end_capture(captured);
  EXPECT_THAT(wait(), ElementsAre(block));
}

TEST_F(PendingFreesTest, WaitsForDeviceOfDestroyedStream) {
  const StreamId destroyed = new_stream();
  const StreamId captured = new_stream();
  Block* block = new_block();
  use(block, destroyed);
  must(device().destroy_stream(destroyed));
  must(frees_->add(block));
  EXPECT_THAT(collect(), IsEmpty());
  begin_capture(captured);
  EXPECT_THAT(wait(), IsEmpty());
  EXPECT_EQ(calls(DeviceCall::kSynchronizeDevice), 0U);
  end_capture(captured);
  EXPECT_THAT(wait(), ElementsAre(block));
}

TEST_F(PendingFreesTest, RetriesFailedDeviceWait) {
  const StreamId destroyed = new_stream();
  Block* block = new_block();
  use(block, destroyed);
  must(device().destroy_stream(destroyed));
  must(frees_->add(block));
  fail(DeviceCall::kSynchronizeDevice);
  std::vector<Block*> finished;
  EXPECT_EQ(frees_->wait(finished).kind(), StatusKind::kDeviceFault);
  EXPECT_THAT(finished, IsEmpty());
  EXPECT_THAT(wait(), ElementsAre(block));
}

// --- graph ancestry

class GraphProofTest : public PendingFreesTest {
 protected:
  void SetUp() override {
    PendingFreesTest::SetUp();
    start(true);
    main_ = new_stream();
    side_ = new_stream();
    begin_capture(main_);
    work(main_);
    order(main_, side_);
    work(side_);
  }
  void TearDown() override { end_capture(main_); }
  // Returns a freed block of the captured stream `own` that the captured stream `other` has used.
  Block* freed_block_used_on_both(StreamId own, StreamId other) {
    Block* block = new_block(own);
    use(block, other);
    must(frees_->add(block));
    return block;
  }

  StreamId main_;
  StreamId side_;
};

TEST_F(GraphProofTest, FreesBlockOnceAllUsesPrecede) {
  Block* block = freed_block_used_on_both(main_, side_);
  EXPECT_THAT(collect_for_stream(main_), IsEmpty())
      << "its next work runs concurrently with the other stream";
  order(side_, main_);
  EXPECT_THAT(collect_for_stream(main_), ElementsAre(block));
  EXPECT_TRUE(block->uses.empty());
}

TEST_F(GraphProofTest, IgnoresBlocksOfOtherStreams) {
  Block* block = freed_block_used_on_both(side_, main_);
  order(side_, main_);
  EXPECT_THAT(collect_for_stream(main_), IsEmpty());
  order(main_, side_);
  EXPECT_THAT(collect_for_stream(side_), ElementsAre(block));
  order(side_, main_);
}

TEST_F(GraphProofTest, CachesGraphAncestors) {
  freed_block_used_on_both(main_, side_);
  EXPECT_THAT(collect_for_stream(main_), IsEmpty());
  const uint64_t query_count = calls(DeviceCall::kNodeDependencies);
  EXPECT_GT(query_count, 0U);
  EXPECT_THAT(collect_for_stream(main_), IsEmpty());
  EXPECT_EQ(calls(DeviceCall::kNodeDependencies), query_count);
  frees_->clear_graph_cache();
  EXPECT_THAT(collect_for_stream(main_), IsEmpty());
  EXPECT_EQ(calls(DeviceCall::kNodeDependencies), 2 * query_count);
  order(side_, main_);
}

TEST_F(GraphProofTest, FreesNothingDuringCaptureIfReuseIsOff) {
  frees_ = std::make_unique<PendingFrees>(device(), false);
  frees_->capture_began();
  freed_block_used_on_both(main_, side_);
  order(side_, main_);
  EXPECT_THAT(collect_for_stream(main_), IsEmpty());
  EXPECT_EQ(calls(DeviceCall::kNodeDependencies), 0U);
}

}  // namespace
}  // namespace ashlar
