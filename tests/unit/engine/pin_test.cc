// SPDX-License-Identifier: Apache-2.0
//
// Tests of pinned blocks, such as blocks that another process has open. They keep their memory
// until the last unpin.
#include <algorithm>

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

class PinTest : public ClassicFixture {};

TEST_F(PinTest, PinnedBlockIsNotReusedUntilUnpinned) {
  start();
  Block* block = allocate(kMiB);
  const DeviceAddress address = block->address;
  engine_->pin(block);
  free(block);
  EXPECT_EQ(stats().allocated_bytes.all.current, 0);
  EXPECT_EQ(stats().active_bytes.all.current, static_cast<int64_t>(kMiB)) << "it is pending";
  Block* other = allocate(kMiB);
  EXPECT_NE(other->address, address);
  free(other);

  engine_->unpin(block);
  EXPECT_EQ(stats().active_bytes.all.current, 0);
  EXPECT_EQ(allocate(kMiB)->address, address);
}

TEST_F(PinTest, RequiresReleaseByEveryOwner) {
  start();
  Block* block = allocate(kMiB);
  engine_->pin(block);
  engine_->pin(block);
  free(block);
  engine_->unpin(block);
  EXPECT_EQ(stats().active.all.current, 1);
  engine_->unpin(block);
  EXPECT_EQ(stats().active.all.current, 0);
}

TEST_F(PinTest, UnpinOfAllocatedBlockChangesNothing) {
  start();
  Block* block = allocate(kMiB);
  engine_->pin(block);
  engine_->unpin(block);
  EXPECT_EQ(stats().allocation.all.current, 1);
  free(block);
  EXPECT_EQ(stats().active.all.current, 0);
}

TEST_F(PinTest, WaitsForStreamsAfterLastUnpin) {
  start();
  const StreamId side = busy_stream();
  Block* block = allocate(kMiB);
  const DeviceAddress address = block->address;
  use_on(block, side);
  engine_->pin(block);
  free(block);
  engine_->unpin(block);
  EXPECT_EQ(stats().active.all.current, 1) << "the stream is not done with it";
  EXPECT_NE(allocate(kMiB)->address, address);
  finish(side);
  EXPECT_EQ(allocate(kMiB)->address, address);
}

TEST_F(PinTest, TrimKeepsSegmentOfPinnedBlock) {
  for (bool expandable : {false, true}) {
    AllocatorOptions options;
    options.expandable_segments = expandable;
    start(options);
    Block* block = allocate(30 * kMiB);
    engine_->pin(block);
    free(block);
    trim();
    EXPECT_GE(used_bytes(), 30 * kMiB);
    engine_->unpin(block);
    trim();
    EXPECT_EQ(used_bytes(), 0U);
    TearDown();
  }
}

TEST_F(PinTest, LastUnpinCompletesTheFree) {
  start();
  Block* block = allocate(kMiB);
  engine_->pin(block);
  free(block);
  EXPECT_EQ(trace_.back().action, TraceAction::kFreeRequested);
  engine_->unpin(block);
  EXPECT_EQ(trace_.back().action, TraceAction::kFreeCompleted);
}

TEST_F(PinTest, RejectsRestoreWithPinnedBlock) {
  start();
  const PoolId pool{0, 1};
  must(engine_->create_pool(pool, {}));
  route(pool);
  Block* block = allocate(kMiB);
  end_route(pool);
  const PoolCheckpoint before = *engine_->checkpoint(pool);
  engine_->pin(block);
  const Status allocation_error = engine_->restore(before).status();
  EXPECT_EQ(allocation_error.kind(), StatusKind::kInvalidArgument);
  EXPECT_NE(allocation_error.message().find("shared with other processes"), std::string::npos);
  engine_->unpin(block);
  EXPECT_TRUE(engine_->restore(before).ok());
}

// --- block memory

TEST_F(PinTest, PlainBlockMemoryIsItsSegment) {
  start();
  Block* first = allocate(3 * kMiB);
  Block* second = allocate(3 * kMiB);
  const BlockMemory memory = engine_->block_memory(second);
  EXPECT_EQ(memory.origin, BlockMemory::Origin::kAllocation);
  EXPECT_EQ(memory.range, (AddressRange{first->address, 20 * kMiB}));
  EXPECT_TRUE(memory.extents.empty());
}

TEST_F(PinTest, ExpandableBlockMemoryIsItsGranules) {
  AllocatorOptions options;
  options.expandable_segments = true;
  start(options);
  const Block* first = allocate(15 * kMiB);
  const Block* second = allocate(15 * kMiB);  // from 15 to 30 MiB, in granules 0 and 1
  const Block* third = allocate(15 * kMiB);   // from 30 to 45 MiB, in granules 1 and 2
  const DeviceAddress base = first->address;
  const BlockMemory of_first = engine_->block_memory(first);
  const BlockMemory of_second = engine_->block_memory(second);
  const BlockMemory of_third = engine_->block_memory(third);
  EXPECT_EQ(of_first.origin, BlockMemory::Origin::kExtents);
  EXPECT_EQ(of_first.granule_bytes, 20 * kMiB);
  EXPECT_EQ(of_first.range, (AddressRange{base, 20 * kMiB}));
  EXPECT_EQ(of_second.range, (AddressRange{base, 40 * kMiB}));
  EXPECT_EQ(of_third.range, (AddressRange{base + 20 * kMiB, 40 * kMiB}));
  ASSERT_EQ(of_first.extents.size(), 1U);
  ASSERT_EQ(of_second.extents.size(), 2U);
  ASSERT_EQ(of_third.extents.size(), 2U);
  EXPECT_EQ(of_second.extents[0], of_first.extents[0]);
  EXPECT_EQ(of_third.extents[0], of_second.extents[1]);
  EXPECT_FALSE(of_third.can_export_fd);
}

class FixedSource final : public SegmentSource {
 public:
  Result<DeviceAddress> allocate(size_t, StreamId) override { return DeviceAddress(1 << 30); }
  void free(DeviceAddress, size_t) override {}
};

TEST_F(PinTest, ReportsMemoryOfCustomSource) {
  start();
  const PoolId pool{0, 1};
  must(engine_->create_pool(pool, {.source = std::make_shared<FixedSource>()}));
  route(pool);
  const Block* block = allocate(kMiB);
  end_route(pool);
  EXPECT_EQ(engine_->block_memory(block).origin, BlockMemory::Origin::kSource);
}

}  // namespace
}  // namespace ashlar::classic
