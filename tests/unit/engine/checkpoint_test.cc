// SPDX-License-Identifier: Apache-2.0
//
// Tests of restoring a private pool with more, fewer and differently split blocks.
#include "ashlar/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

class CheckpointTest : public ClassicFixture {
 protected:
  void start_pool(const AllocatorOptions& options = {}) {
    start(options);
    route(kGraphPool);
  }
  PoolCheckpoint take_checkpoint() {
    Result<PoolCheckpoint> taken = engine_->checkpoint(kGraphPool);
    EXPECT_TRUE(taken.ok()) << taken.status().to_string();
    return taken.ok() ? *taken : PoolCheckpoint{};
  }
  RestoreResult restore(const PoolCheckpoint& checkpoint) {
    Result<RestoreResult> change = engine_->restore(checkpoint);
    EXPECT_TRUE(change.ok()) << change.status().to_string();
    must(engine_->validate());
    return change.ok() ? *change : RestoreResult{};
  }
  static std::vector<DeviceAddress> addresses(const std::vector<Block*>& blocks) {
    std::vector<DeviceAddress> found;
    for (const Block* block : blocks) found.push_back(block->address);
    std::sort(found.begin(), found.end());
    return found;
  }
};

TEST_F(CheckpointTest, RestoresAllocatedAndFreedBlocks) {
  start_pool();
  Block* kept = allocate(512);
  Block* freed_later = allocate(64 * kKiB);
  const DeviceAddress kept_at = kept->address;
  const DeviceAddress freed_at = freed_later->address;
  const PoolCheckpoint checkpoint = take_checkpoint();

  free(freed_later);
  Block* added = allocate(kKiB);
  EXPECT_EQ(added->address, freed_at) << "the freed place is used again, cut differently";
  const RestoreResult change = restore(checkpoint);
  EXPECT_EQ(change.freed.size(), 2u);
  EXPECT_EQ(addresses(change.allocated), (std::vector{kept_at, freed_at}));
  EXPECT_EQ(stats().allocated_bytes.all.current, static_cast<int64_t>(512 + 64 * kKiB));
  for (Block* block : change.allocated) free(block);
  EXPECT_EQ(stats().allocated_bytes.all.current, 0);
}

TEST_F(CheckpointTest, RestoresFreeBlocksBetweenLiveOnes) {
  start_pool();
  Block* first = allocate(kKiB);
  Block* hole = allocate(kKiB);
  allocate(kKiB);
  const DeviceAddress hole_at = hole->address;
  free(hole);
  const PoolCheckpoint checkpoint = take_checkpoint();
  EXPECT_EQ(allocate(kKiB)->address, hole_at);
  free(first);
  restore(checkpoint);
  EXPECT_EQ(allocate(kKiB)->address, hole_at);
}

TEST_F(CheckpointTest, LeavesNewSegmentsFree) {
  start_pool();
  allocate(kKiB);
  const PoolCheckpoint checkpoint = take_checkpoint();
  Block* large = allocate(32 * kMiB);
  const DeviceAddress large_at = large->address;
  const RestoreResult change = restore(checkpoint);
  EXPECT_NE(std::find(change.freed.begin(), change.freed.end(), large_at), change.freed.end());
  EXPECT_EQ(allocate(32 * kMiB)->address, large_at);
}

TEST_F(CheckpointTest, RestoresExpandableSegments) {
  AllocatorOptions options;
  options.expandable_segments = true;
  start_pool(options);
  Block* first = allocate(8 * kMiB);
  Block* second = allocate(8 * kMiB);
  const DeviceAddress first_at = first->address;
  const DeviceAddress second_at = second->address;
  const PoolCheckpoint checkpoint = take_checkpoint();
  free(first);
  free(second);
  const RestoreResult change = restore(checkpoint);
  EXPECT_EQ(addresses(change.allocated), (std::vector{first_at, second_at}));
}

TEST_F(CheckpointTest, RejectsRestoreOfReleasedSegment) {
  start_pool();
  Block* block = allocate(32 * kMiB);
  const PoolCheckpoint checkpoint = take_checkpoint();
  free(block);
  end_route(kGraphPool);
  must(engine_->release_pool(kGraphPool));
  trim(kGraphPool);
  const Status refused_restore = engine_->restore(checkpoint).status();
  EXPECT_EQ(refused_restore.kind(), StatusKind::kInvalidArgument) << refused_restore.to_string();
  EXPECT_EQ(stats().reserved_bytes.all.current, 0);
}

TEST_F(CheckpointTest, ChecksLayoutBeforeFreeing) {
  start_pool();
  Block* live = allocate(kKiB);
  PoolCheckpoint checkpoint = take_checkpoint();
  checkpoint.segments.front().blocks.front().range.begin = DeviceAddress(4096);
  const Status wrong = engine_->restore(checkpoint).status();
  EXPECT_EQ(wrong.kind(), StatusKind::kInvalidArgument);
  EXPECT_NE(wrong.message().find("could not find"), std::string::npos) << wrong.to_string();
  EXPECT_TRUE(live->is_allocated());
}

TEST_F(CheckpointTest, RejectsCheckpointWithPendingBlocks) {
  start_pool();
  const StreamId busy = busy_stream();
  Block* used = allocate(kKiB);
  use_on(used, busy);
  free(used);
  const Status refused = engine_->checkpoint(kGraphPool).status();
  EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument);
  EXPECT_NE(refused.message().find("synchronize"), std::string::npos) << refused.to_string();
  finish(busy);
  free(allocate(kKiB));
  EXPECT_TRUE(engine_->checkpoint(kGraphPool).ok());
}

TEST_F(CheckpointTest, RejectsRestoreWithUsedBlocks) {
  start_pool();
  const PoolCheckpoint checkpoint = take_checkpoint();
  Block* block = allocate(512);
  const StreamId other = new_stream();
  use_on(block, other);
  const Status allocation_error = engine_->restore(checkpoint).status();
  EXPECT_EQ(allocation_error.kind(), StatusKind::kInvalidArgument);
  EXPECT_NE(allocation_error.message().find("of pool {1, 0} is used by other streams: free it"),
            std::string::npos)
      << allocation_error.to_string();
  EXPECT_TRUE(block->is_allocated());
  free(block);
  must(device().synchronize_stream(other));
  must(engine_->allocate({512, {}}).status());  // this call collects pending frees
  restore(checkpoint);
}

// An uncached block returns to the device when freed, so it could not be restored.
TEST_F(CheckpointTest, RejectsUncachedBlocks) {
  start_pool();
  const PoolCheckpoint empty = take_checkpoint();
  engine_->set_caching(false);
  Block* uncached = allocate(512);
  for (const Status& status :
       {engine_->checkpoint(kGraphPool).status(), engine_->restore(empty).status()}) {
    EXPECT_EQ(status.kind(), StatusKind::kInvalidArgument);
    EXPECT_NE(status.message().find("while caching was off"), std::string::npos)
        << status.to_string();
  }
  EXPECT_TRUE(uncached->is_allocated());
  free(uncached);
  restore(take_checkpoint());
}

TEST_F(CheckpointTest, RejectsUnknownAndReleasedPools) {
  start_pool();
  EXPECT_EQ(engine_->checkpoint({7, 0}).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(engine_->restore({{7, 0}, {}}).status().kind(), StatusKind::kInvalidArgument);
  allocate(kKiB);
  end_route(kGraphPool);
  must(engine_->release_pool(kGraphPool));
  EXPECT_EQ(engine_->checkpoint(kGraphPool).status().kind(), StatusKind::kInvalidArgument);
}

}  // namespace
}  // namespace ashlar::classic
