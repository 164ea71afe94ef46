// SPDX-License-Identifier: Apache-2.0
//
// Tests of splitting and releasing plain segments, including segments that cannot be freed.
#include "engine/paged/segment_store.h"

#include "unit/engine/paged/components_fixture.h"

namespace ashlar::paged {
namespace {

class SegmentStoreTest : public ComponentsFixture {
 protected:
  PagedBlock* allocate(size_t bytes, size_t segment_bytes, StreamId stream = kDefaultStream)
      ASHLAR_REQUIRES(engine_lock) {
    SlowPathRequest slow = request(bytes, stream);
    const Result<Block*> block = components_->segments.allocate(slow, segment_bytes);
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    return block.ok() ? static_cast<PagedBlock*>(*block) : nullptr;
  }
  static void free(PagedBlock* block) {
    BiasedLock lock(block->arena->lock);
    block->arena->free(block);
    block->arena->flush();
  }
};

TEST_F(SegmentStoreTest, SplitsTheBlockOffItsSegment) {
  EngineLock lock(components_->mutex);
  PagedBlock* block = allocate(4 * kMiB, 20 * kMiB);
  View& view = *block->view;
  EXPECT_TRUE(view.is_plain);
  EXPECT_EQ(components_->extents.held_bytes(), 20 * kMiB);
  EXPECT_FALSE(components_->segments.release(view)) << "it is in use";
  free(block);
  EXPECT_TRUE(components_->segments.release(view));
  EXPECT_EQ(components_->extents.held_bytes(), 0U);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(SegmentStoreTest, WithoutWaitingKeepsSegmentsOfBusyStreams) {
  EngineLock lock(components_->mutex);
  const StreamId stream = busy_stream();
  PagedBlock* block = allocate(4 * kMiB, 4 * kMiB, stream);
  View& view = *block->view;
  free(block);
  EXPECT_FALSE(components_->segments.release(view, TrimWait::kNever));
  EXPECT_TRUE(view.first->is_in_ranges()) << "it stays free";
  finish(stream);
  EXPECT_TRUE(components_->segments.release(view, TrimWait::kNever));
}

TEST_F(SegmentStoreTest, KeepsASegmentThatTheDeviceDoesNotFree) {
  EngineLock lock(components_->mutex);
  PagedBlock* block = allocate(4 * kMiB, 4 * kMiB);
  View& view = *block->view;
  free(block);
  machine_->inject({.call = DeviceCall::kFree});
  EXPECT_FALSE(components_->segments.release(view));
  EXPECT_FALSE(components_->error.take().ok());
  EXPECT_TRUE(components_->segments.release(view));
}

}  // namespace
}  // namespace ashlar::paged
