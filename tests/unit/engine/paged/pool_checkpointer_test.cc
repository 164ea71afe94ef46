// SPDX-License-Identifier: Apache-2.0
//
// Tests of restoring checkpoints of private pools, and of refused checkpoints.
#include "engine/paged/pool_checkpointer.h"

#include "unit/engine/paged/paged_fixture.h"

namespace ashlar::paged {
namespace {

class PoolCheckpointerTest : public PagedFixture {
 protected:
  PoolCheckpoint take() {
    const Result<PoolCheckpoint> taken = engine_->checkpoint(kPool);
    EXPECT_TRUE(taken.ok()) << taken.status().to_string();
    return taken.ok() ? *taken : PoolCheckpoint{};
  }
};

TEST_F(PoolCheckpointerTest, RestoresStitchedBlocksAtTheirAddresses) {
  start();
  route(kPool);
  leave_holes(8 * kMiB, 16);
  Block* stitched = allocate(48 * kMiB);
  const DeviceAddress address = stitched->address;
  const PoolCheckpoint checkpoint = take();
  free(stitched);
  for (int i = 0; i < 6; ++i) allocate(8 * kMiB);
  const Result<RestoreResult> restored = engine_->restore(checkpoint);
  ASSERT_TRUE(restored.ok()) << restored.status().to_string();
  EXPECT_EQ(restored->allocated.size(), 9U);
  bool is_restored = false;
  for (const Block* block : restored->allocated) is_restored |= block->address == address;
  EXPECT_TRUE(is_restored);
  expect_valid();
  end_route(kPool);
}

TEST_F(PoolCheckpointerTest, ChangesNothingIfTheMemoryWasReleased) {
  start();
  route(kPool);
  Block* block = allocate(8 * kMiB);
  const PoolCheckpoint checkpoint = take();
  free(block);
  end_route(kPool);
  must(engine_->release_pool(kPool));
  must(engine_->trim());
  expect_kind(engine_->restore(checkpoint).status(), StatusKind::kInvalidArgument);
  expect_valid();
}

TEST_F(PoolCheckpointerTest, RefusesUnknownReleasedAndDefaultPools) {
  start();
  expect_kind(engine_->checkpoint(kPool).status(), StatusKind::kInvalidArgument);
  expect_kind(engine_->checkpoint({}).status(), StatusKind::kInvalidArgument);
  make_pool(kPool, {});
  must(engine_->release_pool(kPool));
  expect_kind(engine_->checkpoint(kPool).status(), StatusKind::kInvalidArgument);
}

}  // namespace
}  // namespace ashlar::paged
