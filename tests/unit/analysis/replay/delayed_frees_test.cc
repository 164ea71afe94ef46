// SPDX-License-Identifier: Apache-2.0
//
// Tests pending frees of a replay: each free completes when it completes in the trace, and frees
// that complete in order share a stream.
#include "analysis/replay/delayed_frees.h"

#include <optional>
#include <vector>

#include "analysis/replay/replay_streams.h"
#include "engine/factory/make_engine.h"
#include "unit/engine/sim_fixture.h"

namespace ashlar {
namespace {

constexpr size_t kBlockBytes = 20 * kMiB;

class DelayedFreesTest : public SimFixture {
 protected:
  DelayedFreesTest() {
    make_machine();
    AllocatorOptions options;
    options.engine = EngineKind::kClassic;
    Result<std::unique_ptr<Engine>> engine = make_engine(device(), options);
    EXPECT_TRUE(engine.ok());
    engine_ = *std::move(engine);
    frees_.emplace(*machine_, *engine_);
  }
  void free_until(uint32_t allocation, uint32_t completed_entry) {
    Result<Block*> block = engine_->allocate({512, kDefaultStream});
    ASSERT_TRUE(block.ok());
    must(frees_->free(allocation, *block, completed_entry));
  }
  // Returns the number of pending frees, after an allocation has polled them.
  int64_t pending_count() {
    Result<Block*> block = engine_->allocate({kBlockBytes, kDefaultStream});
    EXPECT_TRUE(block.ok());
    must(engine_->free(*block));
    const AllocatorStats stats = engine_->stats();
    return stats.active.all.current - stats.allocation.all.current;
  }

  std::unique_ptr<Engine> engine_;
  std::optional<DelayedFrees> frees_;
};

TEST_F(DelayedFreesTest, FreesThatCompleteInOrderShareOneStream) {
  constexpr uint32_t kCount = 100;
  for (uint32_t i = 0; i < kCount; ++i) free_until(i, kCount + i);
  EXPECT_EQ(frees_->stream_count(), 1U);
  for (uint32_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(pending_count(), kCount - i);
    must(frees_->complete(i));
  }
  EXPECT_EQ(pending_count(), 0);
}

TEST_F(DelayedFreesTest, FreesThatOvertakeUseAnotherStream) {
  free_until(0, 30);
  free_until(1, 10);
  free_until(2, 20);
  EXPECT_EQ(frees_->stream_count(), 2U);
  for (const uint32_t allocation : {1U, 2U, 0U}) must(frees_->complete(allocation));
  EXPECT_EQ(pending_count(), 0);
  free_until(3, 50);
  free_until(4, 40);
  EXPECT_EQ(frees_->stream_count(), 2U) << "streams without pending frees are reused";
  EXPECT_EQ(pending_count(), 2);
}

TEST_F(DelayedFreesTest, CompletesFreesThatAnEarlierWaitHasFinished) {
  free_until(0, 10);
  free_until(1, 20);
  must(engine_->trim());
  EXPECT_EQ(pending_count(), 0);
  free_until(2, 30);
  must(frees_->complete(0));
  must(frees_->complete(1));
  EXPECT_EQ(pending_count(), 1);
  must(frees_->complete(2));
  EXPECT_EQ(pending_count(), 0);
}

TEST_F(DelayedFreesTest, ReturnsErrorIfTheDeviceCannotCreateStreams) {
  machine_->inject({.call = DeviceCall::kCreateStream});
  Result<Block*> block = engine_->allocate({512, kDefaultStream});
  EXPECT_TRUE(frees_->free(0, *block, 10).is(StatusKind::kDeviceFault));
  must(engine_->free(*block));
}

TEST_F(DelayedFreesTest, StreamsOfAReplayFailIfTheDeviceDoes) {
  ReplayStreams streams(device());
  machine_->inject({.call = DeviceCall::kCreateStream});
  TraceEntry entry;
  entry.stream = StreamId(77);
  EXPECT_TRUE(streams.create_all({entry}, {}).is(StatusKind::kDeviceFault));
  ASSERT_TRUE(streams.create_all({entry}, {}).ok());
  EXPECT_EQ(streams.recorded(*streams.replayed(StreamId(77))), StreamId(77));
}

}  // namespace
}  // namespace ashlar
