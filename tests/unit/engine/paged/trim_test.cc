// SPDX-License-Identifier: Apache-2.0
//
// Trimming to a number of bytes: which extents go, and what becomes of those that are still in use
// by the device.
#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

class TrimTest : public PagedFixture {
 protected:
  size_t trim_to(size_t reserved_bytes, TrimWait wait = TrimWait::kNever) {
    const Result<size_t> given = engine_->trim_to({reserved_bytes, wait, {}});
    EXPECT_TRUE(given.ok()) << given.status().to_string();
    return given.ok() ? *given : 0;
  }
  uint64_t waits() const {
    return calls(DeviceCall::kSynchronizeStream) + calls(DeviceCall::kSynchronizeEvent) +
           calls(DeviceCall::kSynchronizeDevice);
  }
  // The stream does all that it has been given so far, and has something left to do afterwards,
  // which waits for the gate.
  void pass_up_to(StreamId stream, StreamId gate) {
    const EventId event = *device().create_event();
    must(device().record_event(event, gate));
    must(device().wait_event(stream, event));
    must(device().call_host(stream, [] {}));
    must(device().destroy_event(event));
    must(machine_->resume(DeviceIndex(0), stream));
    while (machine_->step()) {
    }
    EXPECT_FALSE(*device().is_idle(stream));
  }
};

TEST_F(TrimTest, MemoryOfIdleStreamsGoesWhileOthersAreAtWork) {
  start();
  const StreamId idle = new_stream();
  const StreamId busy = busy_stream();
  Block* on_idle = allocate(64 * kMiB, idle);
  Block* on_busy = allocate(100 * kMiB, busy);
  free(on_idle);
  free(on_busy);
  forget_calls();
  EXPECT_EQ(trim_to(0), 64 * kMiB);
  EXPECT_EQ(waits(), 0U);
  finish(busy);
  EXPECT_EQ(trim_to(0), 100 * kMiB);
}

TEST_F(TrimTest, AStreamThatIsNeverIdleGivesBackWhatItHasPassed) {
  start();
  const StreamId gate = busy_stream();
  const StreamId stream = busy_stream();
  free(allocate(64 * kMiB, stream));
  EXPECT_EQ(trim_to(0), 0U);
  pass_up_to(stream, gate);
  EXPECT_EQ(trim_to(0), 64 * kMiB);
  EXPECT_EQ(waits(), 0U);
  finish(gate);
}

TEST_F(TrimTest, WhatWasSetApartAndUsedSinceIsNotGivenBack) {
  start();
  const StreamId gate = busy_stream();
  const StreamId stream = busy_stream();
  free(allocate(64 * kMiB, stream));
  EXPECT_EQ(trim_to(0), 0U);
  forget_calls();
  free(allocate(64 * kMiB, stream));
  EXPECT_EQ(calls(DeviceCall::kCreate), 0U) << "it serves as before";
  pass_up_to(stream, gate);
  EXPECT_EQ(trim_to(0), 0U) << "work with the last block may still be queued";
  finish(gate);
}

TEST_F(TrimTest, APoolThatNeverRemapsIsLeftAloneWhileABlockOfItLives) {
  start();
  PoolOptions options;
  options.never_remap = true;
  must(engine_->create_pool(kPool, options));
  must(engine_->begin_routing(kPool, [](StreamId) { return true; }));
  Block* kept = allocate(8 * kMiB);
  free(allocate(64 * kMiB));
  must(engine_->end_routing(kPool));
  must(engine_->release_pool(kPool));
  must(engine_->release_pool(kPool));
  EXPECT_EQ(trim_to(0), 0U);
  free(kept);
  EXPECT_GE(trim_to(0), 72 * kMiB);
}

TEST_F(TrimTest, ExtentsWithFewMappingsGoFirst) {
  start();
  std::vector<Block*> left = leave_holes(8 * kMiB, 16);
  free(allocate(48 * kMiB));  // stitched from the holes: each has two mappings
  free(allocate(8 * kMiB));
  const size_t before = used_bytes();
  Block* plain = allocate(200 * kMiB);
  const size_t fresh = used_bytes() - before;
  free(plain);
  forget_calls();
  EXPECT_GE(trim_to(before), fresh);
  EXPECT_EQ(calls(DeviceCall::kUnmap), calls(DeviceCall::kRelease)) << "no stitched view suffered";
}

TEST_F(TrimTest, SegmentsOfADeviceWithoutViewsGoOnceEveryStreamIsIdle) {
  start_on_plain_device();
  const StreamId busy = new_stream();
  free(allocate(20 * kMiB, busy));
  free(allocate(30 * kMiB));
  keep_busy(busy);
  EXPECT_EQ(trim_to(0), 0U) << "the driver would wait for the other stream";
  finish(busy);
  EXPECT_EQ(trim_to(0), 50 * kMiB);
}

}  // namespace
}  // namespace ashlar::paged
