// SPDX-License-Identifier: Apache-2.0
//
// Tests of best fit, splitting, merging and segment sizes.
#include "engine/classic/classic_engine.h"

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

class ClassicEngineTest : public ClassicFixture {};

TEST_F(ClassicEngineTest, SegmentsAndBlocksFollowTheSizeTable) {
  start();
  struct Row {
    size_t requested_bytes, block_bytes, reserved_bytes;
  };
  const Row rows[] = {{1, 512, 2 * kMiB},
                      {kMiB, kMiB, 2 * kMiB},
                      {kMiB + 1, kMiB + 512, 20 * kMiB},
                      {11 * kMiB, 12 * kMiB, 12 * kMiB},
                      {21 * kMiB, 22 * kMiB, 22 * kMiB}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.requested_bytes);
    Block* block = allocate(row.requested_bytes);
    EXPECT_EQ(block->bytes, row.block_bytes);
    EXPECT_EQ(block->requested_bytes, row.requested_bytes);
    EXPECT_EQ(stats().reserved_bytes.all.current, static_cast<int64_t>(row.reserved_bytes));
    free(block);
    trim();
  }
}

TEST_F(ClassicEngineTest, ReusesFreedBlockOnSameStream) {
  start();
  Block* first = allocate(3 * kMiB);
  const DeviceAddress address = first->address;
  free(first);
  EXPECT_EQ(allocate(3 * kMiB)->address, address);
  EXPECT_EQ(calls(DeviceCall::kAllocate), 1U);
}

TEST_F(ClassicEngineTest, TakesTheBestFit) {
  start();
  cache(40 * kMiB);
  const DeviceAddress best = cache(50 * kMiB);  // too large for the cached 40 MiB
  Block* larger = allocate(60 * kMiB);
  free(larger);
  EXPECT_EQ(allocate(44 * kMiB)->address, best);
}

TEST_F(ClassicEngineTest, PrefersTheLowestAddress) {
  start();
  std::vector<Block*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate(20 * kMiB));
  DeviceAddress lowest = blocks[0]->address;
  for (const Block* block : blocks) lowest = std::min(lowest, block->address);
  for (int i : {2, 0, 3, 1}) free(blocks[static_cast<size_t>(i)]);
  EXPECT_EQ(allocate(20 * kMiB)->address, lowest);
}

TEST_F(ClassicEngineTest, SeparatesSmallAndLargeSegments) {
  start();
  cache(20 * kMiB);
  allocate(512);
  EXPECT_EQ(calls(DeviceCall::kAllocate), 2U);
  EXPECT_EQ(stats().reserved_bytes.small_pool.current, static_cast<int64_t>(2 * kMiB));
}

// --- splitting

TEST_F(ClassicEngineTest, SplitsSmallBlockWhen512BytesRemain) {
  start();
  Block* front = allocate(512);
  Block* rest = allocate(2 * kMiB - kMiB - 1024);
  Block* last = allocate(kMiB);
  EXPECT_EQ(rest->address, front->end());
  EXPECT_EQ(last->address, rest->end());
  EXPECT_EQ(last->bytes, kMiB);
  ASSERT_NE(as_classic(last)->next, nullptr) << "512 B remain, and are split off";
  EXPECT_EQ(as_classic(last)->next->bytes, 512U);
}

TEST_F(ClassicEngineTest, SplitsLargeBlockWhenMoreThanOneMiBRemains) {
  start();
  cache(20 * kMiB);
  Block* whole = allocate(19 * kMiB);
  EXPECT_EQ(whole->bytes, 20 * kMiB) << "1 MiB is not enough";
  free(whole);
  Block* split = allocate(19 * kMiB - 512);
  EXPECT_EQ(split->bytes, 19 * kMiB - 512);
  ASSERT_NE(as_classic(split)->next, nullptr);
  EXPECT_EQ(as_classic(split)->next->bytes, kMiB + 512);
}

TEST_F(ClassicEngineTest, AllocatesFromTheFront) {
  start();
  Block* first = allocate(4 * kMiB);
  Block* second = allocate(4 * kMiB);
  EXPECT_EQ(second->address, first->end());
  EXPECT_EQ(second->stream, first->stream);
}

TEST_F(ClassicEngineTest, AboveMaxSplitUsesWholeBlock) {
  AllocatorOptions options;
  options.max_split_bytes = 30 * kMiB;
  start(options);
  cache(40 * kMiB);
  EXPECT_EQ(allocate(32 * kMiB)->bytes, 40 * kMiB) << "8 MiB remain, but oversize is not split";
  EXPECT_EQ(stats().oversize_allocations.current, 1);
  EXPECT_EQ(stats().oversize_segments.current, 1);
}

TEST_F(ClassicEngineTest, OversizeBlocksServeOnlySimilarSizes) {
  AllocatorOptions options;
  options.max_split_bytes = 30 * kMiB;
  start(options);
  const DeviceAddress oversize = cache(40 * kMiB);
  EXPECT_NE(allocate(25 * kMiB)->address, oversize);
  cache(100 * kMiB);
  EXPECT_EQ(allocate(80 * kMiB)->bytes, 80 * kMiB) << "20 MiB more than requested exceed the limit";
}

// --- merging

TEST_F(ClassicEngineTest, MergesWithBothNeighbours) {
  start();
  Block* left = allocate(5 * kMiB);
  Block* middle = allocate(5 * kMiB);
  Block* right = allocate(5 * kMiB);
  const DeviceAddress begin = left->address;
  free(left);
  free(right);
  EXPECT_EQ(stats().inactive_split.all.current, 2) << "the right one merged with the remainder";
  free(middle);
  EXPECT_EQ(stats().inactive_split.all.current, 0);
  Block* whole = allocate(20 * kMiB);
  EXPECT_EQ(whole->address, begin);
  EXPECT_EQ(whole->bytes, 20 * kMiB);
}

TEST_F(ClassicEngineTest, DoesNotMergePendingBlocks) {
  start();
  const StreamId other = busy_stream();
  Block* left = allocate(5 * kMiB);
  Block* middle = allocate(5 * kMiB);
  Block* right = allocate(10 * kMiB);  // the remainder of the segment
  const DeviceAddress begin = left->address;
  use_on(middle, other);
  free(middle);
  free(left);
  free(right);
  EXPECT_NE(allocate(15 * kMiB)->address, begin) << "the pending block is in between";
  finish(other);
  EXPECT_EQ(allocate(20 * kMiB)->address, begin);
}

TEST_F(ClassicEngineTest, DoesNotMergeAdjacentSegments) {
  start();
  Block* first = allocate(20 * kMiB);
  Block* second = allocate(20 * kMiB);
  free(first);
  free(second);
  allocate(40 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kAllocate), 3U);
}

// --- release

TEST_F(ClassicEngineTest, TrimReleasesWholeSegments) {
  start();
  Block* kept = allocate(4 * kMiB);
  cache(4 * kMiB);
  cache(40 * kMiB);
  trim();
  EXPECT_EQ(calls(DeviceCall::kFree), 1U);
  EXPECT_EQ(stats().reserved_bytes.all.current, static_cast<int64_t>(20 * kMiB));
  free(kept);
  trim();
  EXPECT_EQ(stats().reserved_bytes.all.current, 0);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(ClassicEngineTest, DestructorReleasesLiveSegments) {
  start();
  const StreamId other = new_stream();
  allocate(4 * kMiB);
  Block* pending = allocate(512);
  use_on(pending, other);
  free(pending);
  engine_.reset();
  EXPECT_EQ(used_bytes(), 0U);
}

// --- invalid requests

TEST_F(ClassicEngineTest, RejectsZeroBytes) {
  start();
  EXPECT_EQ(allocation_error(0).kind(), StatusKind::kInvalidArgument);
}

TEST_F(ClassicEngineTest, RejectsExabyteWithoutDeviceCall) {
  start();
  EXPECT_EQ(allocation_error(size_t{1} << 60).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(allocation_error(SIZE_MAX).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(calls(DeviceCall::kAllocate), 0U);
  EXPECT_EQ(allocation_error((size_t{1} << 60) - 1).kind(), StatusKind::kOutOfMemory)
      << "by the device";
}

}  // namespace
}  // namespace ashlar::classic
