// SPDX-License-Identifier: Apache-2.0
//
// Tests blocks: their size, alignment and contents, and the statistics about them.
#include <algorithm>

#include "base/random.h"
#include "engine_contract.h"

namespace ashlar::contract {

TEST_P(EngineMemoryContract, BlocksAreLargeEnoughAlignedAndDisjoint) {
  for (size_t bytes : {1, 255, 256, 257, 511, 512, 513, 4096, 100'000}) allocate(bytes);
  for (size_t bytes : {kMiB - 1, kMiB, kMiB + 1, 2 * kMiB, 10 * kMiB, 33 * kMiB}) allocate(bytes);
  const StreamId stream = create_stream();
  for (size_t bytes : {size_t{1}, 4 * kMiB}) allocate(bytes, stream);
  EXPECT_EQ(stats().allocation.all.current, 17);
}

TEST_P(EngineMemoryContract, EveryRequestedByteIsUsable) {
  for (size_t bytes : {size_t{1}, size_t{777}, kMiB + 1, 21 * kMiB}) {
    Block* block = allocate(bytes);
    fill(block, 0x5a);
    EXPECT_TRUE(contains(block, 0x5a)) << bytes;
  }
}

TEST_P(EngineMemoryContract, FastPathRejectsInvalidAndImpossibleSizes) {
  for (int i = 0; i < 100; ++i) free(allocate(512));  // warms up the fast path
  for (size_t bytes : {size_t{0}, SIZE_MAX, SIZE_MAX - 510, size_t{1} << 60}) {
    EXPECT_EQ(engine().allocate_fast(bytes, kDefaultStream), nullptr) << bytes;
  }
  EXPECT_EQ(stats().allocation.all.current, 0);
}

TEST_P(EngineMemoryContract, BlocksBelongToTheEnginesDevice) {
  Block* block = allocate(3 * kMiB);
  const AddressDescription found = require_ok(device().describe(block->address + 2 * kMiB));
  EXPECT_EQ(found.kind, MemoryKind::kDevice);
  EXPECT_EQ(found.device, device().properties().index);
  EXPECT_EQ(&engine().device(), &device());
}

TEST_P(EngineMemoryContract, ContentsSurviveOperationsOnOtherBlocks) {
  struct Tracked {
    Block* block;
    uint8_t value;
  };
  Random random(7);
  const std::vector<StreamId> streams = {kDefaultStream, create_stream(), create_stream()};
  std::vector<Tracked> kept;
  for (int step = 0; step < 400; ++step) {
    if (kept.size() > 24 || (!kept.empty() && random.below(3) == 0)) {
      std::swap(kept[random.below(kept.size())], kept.back());
      EXPECT_TRUE(contains(kept.back().block, kept.back().value)) << "step " << step;
      free(kept.back().block);
      kept.pop_back();
    } else {
      const size_t bytes = 1 + random.below(size_t{1} << (9 + random.below(13)));
      Block* block = allocate(bytes, streams[random.below(streams.size())]);
      kept.push_back({block, static_cast<uint8_t>(random.below(256))});
      fill(block, kept.back().value);
    }
    if (step % 97 == 0) require_ok(engine().trim());
  }
  for (const Tracked& each : kept) EXPECT_TRUE(contains(each.block, each.value));
  expect_trims_to_zero();
}

TEST_P(EngineMemoryContract, ReusesFreedMemoryBeforeReservingMore) {
  if (!GetParam().caches) GTEST_SKIP() << "the engine does not cache";
  free(allocate(5 * kMiB));
  free(allocate(700));
  const int64_t reserved = stats().reserved_bytes.all.current;
  for (int i = 0; i < 100; ++i) {
    free(allocate(5 * kMiB));
    free(allocate(700));
  }
  EXPECT_EQ(stats().reserved_bytes.all.peak, reserved);
}

TEST_P(EngineMemoryContract, BlocksCanBeFreedInAnyOrder) {
  Random random(3);
  for (int round = 0; round < 3; ++round) {
    std::vector<Block*> blocks;
    for (int i = 0; i < 40; ++i) blocks.push_back(allocate((i % 8 + 1) * size_t{300'000}));
    if (round == 1) std::reverse(blocks.begin(), blocks.end());
    for (size_t i = blocks.size(); round == 2 && i > 1; --i) {
      std::swap(blocks[i - 1], blocks[random.below(i)]);
    }
    for (Block* block : blocks) free(block);
    EXPECT_EQ(active_count(), 0);
  }
  expect_trims_to_zero();
}

TEST_P(EngineMemoryContract, RejectsAZeroSize) {
  allocate(512);
  const auto before = stats().flatten();
  EXPECT_EQ(allocation_error(0).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(stats().flatten(), before);
}

TEST_P(EngineMemoryContract, ImpossibleSizesAreOutOfMemory) {
  Block* kept = allocate(512);
  fill(kept, 1);
  const int64_t allocated = stats().allocated_bytes.all.current;
  const std::vector<size_t> sizes = {kCapacityBytes + 1,    size_t{1} << 45, size_t{1} << 60,
                                     (size_t{1} << 63) + 1, SIZE_MAX - 1,    SIZE_MAX};
  for (size_t bytes : sizes) {
    EXPECT_EQ(allocation_error(bytes).kind(), StatusKind::kOutOfMemory) << bytes;
  }
  EXPECT_EQ(stats().allocated_bytes.all.current, allocated);
  EXPECT_TRUE(contains(kept, 1));
}

TEST_P(EngineMemoryContract, TrimReleasesEverythingWhenNothingIsInUse) {
  const StreamId stream = create_stream();
  for (size_t bytes : {size_t{512}, kMiB, 5 * kMiB, 40 * kMiB}) {
    allocate(bytes);
    allocate(bytes, stream);
  }
  EXPECT_GT(used_bytes(), 0U);
  free_all();
  require_ok(engine().trim());
  EXPECT_EQ(used_bytes(), 0U);
  EXPECT_EQ(stats().reserved_bytes.all.current, 0);
  fill(allocate(3 * kMiB), 1);
}

TEST_P(EngineMemoryContract, TrimKeepsBlocksInUse) {
  Block* small = allocate(512);
  Block* large = allocate(20 * kMiB);
  // The size is a multiple of 32 MiB, because a driver's pool releases only whole chunks of this
  // size.
  free(allocate(64 * kMiB, create_stream()));
  fill(small, 3);
  fill(large, 4);
  const size_t used = used_bytes();
  require_ok(engine().trim());
  EXPECT_LE(used_bytes(), used - 64 * kMiB);
  EXPECT_TRUE(contains(small, 3));
  EXPECT_TRUE(contains(large, 4));
}

TEST_P(EngineMemoryContract, DestructorReleasesBlocksInUse) {
  const StreamId busy = busy_stream();
  allocate(512);
  allocate(40 * kMiB);
  free(allocate(5 * kMiB));
  record_stream(allocate(kMiB), busy);
  Block* pending = allocate(2 * kMiB);
  record_stream(pending, busy);
  free(pending);
  EXPECT_GT(used_bytes(), 0U);  // the fixture expects 0 after the engine is destroyed
}

// --- statistics

// The values of one statistic that the test has counted.
struct CountedStat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t increased = 0;
  int64_t decreased = 0;

  void add(int64_t by) {
    current += by;
    (by > 0 ? increased : decreased) += by > 0 ? by : -by;
    peak = std::max(peak, current);
  }
  void expect_equals(const StatTriple& stat, const char* name) const {
    EXPECT_EQ(stat.all.current, current) << name;
    EXPECT_EQ(stat.all.peak, peak) << name;
    EXPECT_EQ(stat.all.increased, increased) << name;
    EXPECT_EQ(stat.all.decreased, decreased) << name;
    EXPECT_EQ(stat.small_pool.current + stat.large_pool.current, current) << name;
  }
};

struct CountedStats {
  CountedStat count;
  CountedStat allocated;
  CountedStat requested;

  void add(const Block& block, int64_t sign) {
    count.add(sign);
    allocated.add(sign * static_cast<int64_t>(block.bytes));
    requested.add(sign * static_cast<int64_t>(block.requested_bytes));
  }
  void expect_agrees(const AllocatorStats& stats) const {
    count.expect_equals(stats.allocation, "allocation");
    count.expect_equals(stats.active, "active");
    allocated.expect_equals(stats.allocated_bytes, "allocated_bytes");
    allocated.expect_equals(stats.active_bytes, "active_bytes");
    requested.expect_equals(stats.requested_bytes, "requested_bytes");
    EXPECT_GE(stats.reserved_bytes.all.current, allocated.current);
    EXPECT_GE(stats.reserved_bytes.all.peak, allocated.peak);
  }
};

TEST_P(EngineMemoryContract, StatsMatchAnIndependentCount) {
  CountedStats account;
  Random random(11);
  std::vector<Block*> blocks;
  for (int step = 0; step < 200; ++step) {
    if (blocks.size() > 20 || (!blocks.empty() && random.below(2) == 0)) {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      account.add(*blocks.back(), -1);
      free(blocks.back());
      blocks.pop_back();
    } else {
      blocks.push_back(allocate(1 + random.below(6 * kMiB)));
      account.add(*blocks.back(), 1);
    }
    account.expect_agrees(stats());
    EXPECT_LE(static_cast<size_t>(stats().reserved_bytes.all.current), used_bytes());
    if (HasFailure()) return;
  }
}

TEST_P(EngineMemoryContract, ResettingStatsClearsPeaksAndTotals) {
  Block* kept = allocate(3 * kMiB);
  free(allocate(30 * kMiB));
  engine().reset_peak_stats();
  AllocatorStats now = stats();
  EXPECT_EQ(now.allocated_bytes.all.peak, static_cast<int64_t>(kept->bytes));
  EXPECT_EQ(now.reserved_bytes.all.peak, now.reserved_bytes.all.current);
  EXPECT_GT(now.allocated_bytes.all.decreased, 0) << "totals must not change";
  engine().reset_total_stats();
  now = stats();
  EXPECT_EQ(now.allocation.all.increased, 0);
  EXPECT_EQ(now.allocated_bytes.all.decreased, 0);
  EXPECT_EQ(now.allocated_bytes.all.current, static_cast<int64_t>(kept->bytes));
  free(kept);
  EXPECT_EQ(stats().allocation.all.decreased, 1);
}

}  // namespace ashlar::contract
