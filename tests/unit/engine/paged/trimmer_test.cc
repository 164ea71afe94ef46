// SPDX-License-Identifier: Apache-2.0
//
// Tests of trimming to a target: which extents are released, and what happens to extents still in
// use.
#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

class TrimmerTest : public PagedFixture {
 protected:
  size_t trim_to(size_t reserved_bytes, TrimWait wait = TrimWait::kNever) {
    const Result<size_t> released = engine_->trim_to({reserved_bytes, wait, {}});
    EXPECT_TRUE(released.ok()) << released.status().to_string();
    return released.ok() ? *released : 0;
  }
  uint64_t host_wait_count() const {
    return calls(DeviceCall::kSynchronizeStream) + calls(DeviceCall::kSynchronizeEvent) +
           calls(DeviceCall::kSynchronizeDevice);
  }
  // Runs the stream's queued work, and leaves the stream busy with new work that waits for `gate`.
  void run_up_to(StreamId stream, StreamId gate) {
    const EventId event = *device().create_event();
    must(device().record_event(event, gate));
    must(device().wait_event(stream, event));
    must(device().call_host(stream, [] {}));
    must(device().destroy_event(event));
    must(machine_->resume_stream(DeviceIndex(0), stream));
    while (machine_->step()) {
    }
    EXPECT_FALSE(*device().is_idle(stream));
  }
};

TEST_F(TrimmerTest, ReleasesMemoryOfIdleStreams) {
  start();
  const StreamId idle = new_stream();
  const StreamId busy = busy_stream();
  Block* on_idle = allocate(64 * kMiB, idle);
  Block* on_busy = allocate(100 * kMiB, busy);
  free(on_idle);
  free(on_busy);
  reset_call_counts();
  EXPECT_EQ(trim_to(0), 64 * kMiB);
  EXPECT_EQ(host_wait_count(), 0U);
  finish(busy);
  EXPECT_EQ(trim_to(0), 100 * kMiB);
}

TEST_F(TrimmerTest, BusyStreamReleasesFinishedMemory) {
  start();
  const StreamId gate = busy_stream();
  const StreamId stream = busy_stream();
  free(allocate(64 * kMiB, stream));
  EXPECT_EQ(trim_to(0), 0U);
  run_up_to(stream, gate);
  EXPECT_EQ(trim_to(0), 64 * kMiB);
  EXPECT_EQ(host_wait_count(), 0U);
  finish(gate);
}

TEST_F(TrimmerTest, KeepsMemoryUsedSinceItWasSetAside) {
  start();
  const StreamId gate = busy_stream();
  const StreamId stream = busy_stream();
  free(allocate(64 * kMiB, stream));
  EXPECT_EQ(trim_to(0), 0U);
  reset_call_counts();
  free(allocate(64 * kMiB, stream));
  EXPECT_EQ(calls(DeviceCall::kCreate), 0U) << "it is reused";
  run_up_to(stream, gate);
  EXPECT_EQ(trim_to(0), 0U) << "work with the last block may still be queued";
  finish(gate);
}

TEST_F(TrimmerTest, NeverRemapPoolStaysWhileABlockLives) {
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

TEST_F(TrimmerTest, ReleasesExtentsWithFewMappingsFirst) {
  start();
  std::vector<Block*> left = leave_holes(8 * kMiB, 16);
  free(allocate(48 * kMiB));  // stitched from the holes: its extents have two mappings each
  free(allocate(8 * kMiB));
  const size_t before = used_bytes();
  Block* plain = allocate(200 * kMiB);
  const size_t fresh = used_bytes() - before;
  free(plain);
  reset_call_counts();
  EXPECT_GE(trim_to(before), fresh);
  EXPECT_EQ(calls(DeviceCall::kUnmap), calls(DeviceCall::kRelease))
      << "no stitched mapping was unmapped";
}

TEST_F(TrimmerTest, ReleasesSegmentsOnceAllStreamsAreIdle) {
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
