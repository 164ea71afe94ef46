// SPDX-License-Identifier: Apache-2.0
//
// Tests checkpoints: restoring a pool to an earlier state at the same addresses, and conditions
// that prevent it.
#include <algorithm>
#include <map>

#include "engine_contract.h"

namespace ashlar::contract {
namespace {

constexpr PoolId kOtherPool{2, 0};

// The properties of a block that a restore must preserve.
struct BlockProperties {
  size_t requested_bytes = 0;
  StreamId stream;
  bool operator==(const BlockProperties&) const = default;
};
using PropertiesByAddress = std::map<DeviceAddress, BlockProperties>;

PropertiesByAddress properties_of(const std::vector<Block*>& blocks) {
  PropertiesByAddress properties_by_address;
  for (const Block* block : blocks) {
    properties_by_address[block->address] = {block->requested_bytes, block->stream};
  }
  return properties_by_address;
}

std::vector<DeviceAddress> addresses(const std::vector<Block*>& blocks) {
  std::vector<DeviceAddress> found;
  for (const Block* block : blocks) found.push_back(block->address);
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<DeviceAddress> sorted(std::vector<DeviceAddress> found) {
  std::sort(found.begin(), found.end());
  return found;
}

uint8_t value_of(size_t i) { return static_cast<uint8_t>(i + 1); }

}  // namespace

TEST_P(EngineCheckpointContract, RestoreFreesNewBlocksAndReturnsFreedOnes) {
  const StreamId side = create_stream();
  Block* kept = allocate(5 * kMiB);
  Block* freed_small = allocate(64 * kKiB);
  Block* freed_large = allocate(3 * kMiB + 1, side);
  const PropertiesByAddress before = properties_of({kept, freed_small, freed_large});
  const int64_t allocated_bytes = stats().allocated_bytes.all.current;
  const PoolCheckpoint checkpoint = take_checkpoint();

  free(freed_small);
  free(freed_large);
  const std::vector<Block*> now = {kept, allocate(kKiB), allocate(2 * kMiB, side),
                                   allocate(9 * kMiB)};
  const std::vector<DeviceAddress> live = addresses(now);
  const RestoreResult change = restore(checkpoint);
  EXPECT_EQ(sorted(change.freed), live);
  EXPECT_EQ(properties_of(change.allocated), before);
  EXPECT_EQ(stats().allocated_bytes.all.current, allocated_bytes);
  EXPECT_EQ(active_count(), 3);
  free_all();
  EXPECT_EQ(stats().allocated_bytes.all.current, 0);
  end_routing(kPool);
}

// A later graph may read what an earlier graph wrote to the live blocks, so a restore must not
// change their contents.
TEST_P(EngineCheckpointContract, RestorePreservesTheContentsOfLiveBlocks) {
  std::vector<Block*> kept;
  for (size_t bytes : {size_t{700}, 3 * kMiB, 17 * kMiB}) {
    kept.push_back(allocate(bytes));
    fill(kept.back(), value_of(kept.size()));
  }
  const PropertiesByAddress before = properties_of(kept);
  const PoolCheckpoint checkpoint = take_checkpoint();
  for (size_t bytes : {size_t{700}, 3 * kMiB, 17 * kMiB, 30 * kMiB}) {
    Block* added = allocate(bytes);
    fill(added, 0xEE);
    if (bytes > kMiB) free(added);
  }
  const RestoreResult change = restore(checkpoint);
  EXPECT_EQ(properties_of(change.allocated), before);
  for (const Block* block : change.allocated) {
    const size_t bytes = block->requested_bytes;
    EXPECT_TRUE(contains(block, value_of(bytes == 700 ? 1 : bytes == 3 * kMiB ? 2 : 3)));
  }
  end_routing(kPool);
}

// Takes the checkpoint while blocks alternate with gaps. Before each restore, frees the blocks and
// allocates other blocks, some of them on another stream, that cover the old blocks and gaps.
TEST_P(EngineCheckpointContract, RestoreUndoesSplitsAndMerges) {
  const StreamId side = create_stream();
  std::vector<Block*> left;
  std::vector<Block*> gaps;
  for (size_t i = 0; i < 12; ++i) (i % 2 == 0 ? gaps : left).push_back(allocate(6 * kMiB));
  left.push_back(allocate(512));
  for (Block* gap : gaps) free(gap);
  const PropertiesByAddress before = properties_of(left);
  const PoolCheckpoint checkpoint = take_checkpoint();

  for (int round = 0; round < 3; ++round) {
    free_all();
    for (size_t bytes : {23 * kMiB, 11 * kMiB, size_t{700}}) {
      fill(allocate(bytes), 0xEE);
      fill(allocate(bytes + 512, side), 0xEE, side);
    }
    const RestoreResult change = restore(checkpoint);
    EXPECT_EQ(change.freed.size(), 6U);
    ASSERT_EQ(properties_of(change.allocated), before) << "round " << round;
    // The restored blocks and four new blocks must not overlap.
    std::vector<Block*> live = change.allocated;
    for (int i = 0; i < 4; ++i) live.push_back(allocate(6 * kMiB));
    for (size_t i = 0; i < live.size(); ++i) fill(live[i], value_of(i));
    for (size_t i = 0; i < live.size(); ++i) EXPECT_TRUE(contains(live[i], value_of(i))) << i;
  }
  end_routing(kPool);
}

TEST_P(EngineCheckpointContract, RestoresAnEmptyPool) {
  const PoolCheckpoint checkpoint = take_checkpoint();
  allocate(512);
  allocate(30 * kMiB);
  const RestoreResult change = restore(checkpoint);
  EXPECT_EQ(change.freed.size(), 2U);
  EXPECT_TRUE(change.allocated.empty());
  EXPECT_EQ(active_count(), 0);
  const int64_t reserved = stats().reserved_bytes.all.current;
  allocate(30 * kMiB);
  EXPECT_EQ(stats().reserved_bytes.all.current, reserved) << "its memory was overwritten";
  end_routing(kPool);
}

TEST_P(EngineCheckpointContract, RestoreLeavesOtherPoolsAlone) {
  Block* inside = allocate(5 * kMiB);
  const DeviceAddress inside_at = inside->address;
  const PoolCheckpoint checkpoint = take_checkpoint();
  free(inside);
  end_routing(kPool);
  route_to(kOtherPool);
  Block* other_pools = allocate(5 * kMiB);
  end_routing(kOtherPool);
  Block* outside = allocate(5 * kMiB);
  fill(other_pools, 1);
  fill(outside, 2);
  const RestoreResult change = restore(checkpoint);
  EXPECT_TRUE(change.freed.empty());
  ASSERT_EQ(addresses(change.allocated), std::vector{inside_at});
  fill(change.allocated.front(), 3);
  EXPECT_TRUE(contains(other_pools, 1));
  EXPECT_TRUE(contains(outside, 2));
  EXPECT_TRUE(contains(change.allocated.front(), 3));
}

// --- errors

TEST_P(EngineCheckpointContract, RestoreFailsWhileABlockIsPinned) {
  Block* block = allocate(kMiB);
  const PropertiesByAddress before = properties_of({block});
  const PoolCheckpoint checkpoint = take_checkpoint();
  engine().pin(block);
  expect_no_restore(checkpoint, "shared with other processes");
  EXPECT_TRUE(block->is_allocated());
  const AddressRange held = free_while_used(block);
  expect_no_restore(checkpoint, "shared with other processes");
  expect_no_checkpoint("was freed but is still in use");
  engine().unpin(block);
  mark_finished(held);
  EXPECT_EQ(properties_of(restore(checkpoint).allocated), before);
  end_routing(kPool);
}

TEST_P(EngineCheckpointContract, FailsForBlocksAllocatedWithoutCaching) {
  const PoolCheckpoint empty = take_checkpoint();
  engine().set_caching(false);
  Block* uncached = allocate(3 * kMiB);
  expect_no_checkpoint("while caching was off: free it first");
  expect_no_restore(empty, "while caching was off: free it first");
  EXPECT_TRUE(uncached->is_allocated());
  free(uncached);
  restore(take_checkpoint());
  end_routing(kPool);
}

TEST_P(EngineCheckpointContract, RestoreFailsWhileOtherStreamsUseABlock) {
  const PoolCheckpoint checkpoint = take_checkpoint();
  const StreamId busy = busy_stream();
  Block* block = allocate(kMiB);
  record_stream(block, busy);
  expect_no_restore(checkpoint, "of pool {1, 0} is used by other streams: free it");
  EXPECT_TRUE(block->is_allocated());
  const AddressRange in_use = free_while_used(block);
  expect_no_restore(checkpoint, "was freed but is still in use: synchronize its streams");
  expect_no_checkpoint("was freed but is still in use: synchronize its streams");
  resume_stream(busy);
  mark_finished(in_use);
  free(allocate(kMiB));  // some engines detect finished uses only in these calls
  EXPECT_TRUE(restore(checkpoint).freed.empty());
  take_checkpoint();
  end_routing(kPool);
}

TEST_P(EngineCheckpointContract, RestoreFailsWhenMemoryWasTrimmed) {
  Block* block = allocate(32 * kMiB);
  const PoolCheckpoint checkpoint = take_checkpoint();
  free(block);
  end_routing(kPool);
  require_ok(engine().release_pool(kPool));
  EXPECT_TRUE(ok(engine().trim()));
  expect_no_restore(checkpoint, "pool");
  EXPECT_EQ(stats().reserved_bytes.all.current, 0);
}

TEST_P(EngineCheckpointContract, RestoreDetectsADifferentLayoutBeforeFreeing) {
  Block* live = allocate(kKiB);
  PoolCheckpoint checkpoint = take_checkpoint();
  for (BlockRecord& record : checkpoint.segments.front().blocks) {
    if (record.state == BlockRecord::State::kAllocated) record.range.begin = DeviceAddress(4096);
  }
  expect_no_restore(checkpoint, "could not find");
  EXPECT_TRUE(live->is_allocated());
  end_routing(kPool);
}

TEST_P(EngineCheckpointContract, RejectsUnknownAndReleasedPools) {
  EXPECT_EQ(engine().checkpoint({7, 0}).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(engine().restore({{7, 0}, {}}).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(engine().checkpoint({}).status().kind(), StatusKind::kInvalidArgument)
      << "the default pool";
  EXPECT_EQ(engine().restore({}).status().kind(), StatusKind::kInvalidArgument)
      << "the default pool";
  allocate(kKiB);
  end_routing(kPool);
  require_ok(engine().release_pool(kPool));
  expect_no_checkpoint("was released");
}

}  // namespace ashlar::contract
