// SPDX-License-Identifier: Apache-2.0
//
// Tests the inference of pools that a trace does not contain. tests/golden/replay_golden_test.cc
// tests a complete recording (graph_pools).
#include "analysis/infer_pools.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr size_t kBytes = 20 * kMiB;
constexpr uint64_t kFirstSegment = 100 * kMiB;
constexpr uint64_t kSecondSegment = 200 * kMiB;
constexpr uint64_t kThirdSegment = 300 * kMiB;
constexpr PoolId kPool{0, 1};

// Builds a trace without pools, and the segments at its end.
class InferPoolsTest : public testing::Test {
 protected:
  void add_segment_use(uint64_t address) {
    trace_.add(TraceAction::kSegmentAlloc, address, kBytes).alloc(address, kBytes);
    trace_.free(address, kBytes);
  }
  void free_segment(uint64_t address, size_t bytes = kBytes) {
    trace_.add(TraceAction::kSegmentFree, address, bytes);
  }
  void add_final_segment(uint64_t address, SnapshotBlockState state, PoolId pool = {}) {
    trace_.ends_with(address, kBytes, state);
    trace_.snapshot().segments.back().pool = pool;
  }

  std::vector<PoolId> inferred() {
    infer_pools(trace_.snapshot(), kTraceDevice);
    std::vector<PoolId> pools;
    for (const TraceEntry& entry : trace_.snapshot().device_traces[0]) pools.push_back(entry.pool);
    return pools;
  }

  TraceBuilder trace_;
};

TEST_F(InferPoolsTest, TakesPoolsFromFinalSegments) {
  add_segment_use(kFirstSegment);
  add_segment_use(kSecondSegment);
  add_final_segment(kFirstSegment, kCached);
  add_final_segment(kSecondSegment, kCached, kPool);
  const PoolId none;
  EXPECT_EQ(inferred(), (std::vector<PoolId>{none, none, none, none, kPool, kPool, kPool, kPool}));
  EXPECT_TRUE(trace_.snapshot().device_traces[0][4].has_pool);
}

TEST_F(InferPoolsTest, DistinguishesPoolsThatReuseAnAddress) {
  add_segment_use(kSecondSegment);
  free_segment(kSecondSegment);
  add_segment_use(kSecondSegment);
  add_final_segment(kSecondSegment, kLive, kPool);
  const std::vector<PoolId> pools = inferred();
  EXPECT_TRUE(pools[1].is_default());
  EXPECT_TRUE(pools[4].is_default());
  EXPECT_EQ(pools[6], kPool);
}

TEST_F(InferPoolsTest, InfersAPoolIfOtherSegmentsStayCached) {
  add_segment_use(kFirstSegment);
  add_segment_use(kSecondSegment);
  add_segment_use(kThirdSegment);
  free_segment(kSecondSegment);
  free_segment(kThirdSegment);
  add_final_segment(kFirstSegment, kCached);
  const std::vector<PoolId> pools = inferred();
  const PoolId pool = pools[4];
  EXPECT_FALSE(pool.is_default());
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(pools[i].is_default()) << i;
  for (size_t i = 4; i < pools.size(); ++i) EXPECT_EQ(pools[i], pool) << i;
}

TEST_F(InferPoolsTest, InfersAFlushIfNothingStaysCached) {
  add_segment_use(kFirstSegment);
  add_segment_use(kSecondSegment);
  trace_.alloc(kFirstSegment, kBytes);
  free_segment(kSecondSegment);
  add_final_segment(kFirstSegment, kLive);
  for (const PoolId pool : inferred()) EXPECT_TRUE(pool.is_default());
}

TEST_F(InferPoolsTest, IgnoresSegmentsAllocatedLater) {
  add_segment_use(kSecondSegment);
  free_segment(kSecondSegment);
  trace_.add(TraceAction::kSnapshot, 0, 0);
  add_segment_use(kFirstSegment);
  add_final_segment(kFirstSegment, kCached);
  for (const PoolId pool : inferred()) EXPECT_TRUE(pool.is_default());
}

TEST_F(InferPoolsTest, InfersAFlushBeforeAnAllocation) {
  for (const TraceAction next : {TraceAction::kSegmentAlloc, TraceAction::kOom}) {
    trace_ = {};
    add_segment_use(kFirstSegment);
    add_segment_use(kSecondSegment);
    free_segment(kSecondSegment);
    trace_.add(next, kThirdSegment, kBytes);
    add_final_segment(kFirstSegment, kCached);
    for (const PoolId pool : inferred()) EXPECT_TRUE(pool.is_default());
  }
}

// A released pool frees its small segments before its large segments, each group ordered by stream,
// size and address. A free that breaks this order belongs to the next pool.
TEST_F(InferPoolsTest, SeparatesConsecutivePoolsByFreeOrder) {
  add_final_segment(kFirstSegment, kCached);
  free_segment(kThirdSegment, 2 * kMiB);
  free_segment(kSecondSegment);
  free_segment(kSecondSegment + kBytes);
  free_segment(kThirdSegment + kBytes, 2 * kMiB);
  const std::vector<PoolId> pools = inferred();
  EXPECT_EQ(pools[0], pools[1]);
  EXPECT_EQ(pools[1], pools[2]);
  EXPECT_NE(pools[2], pools[3]);
  EXPECT_FALSE(pools[3].is_default());
}

TEST_F(InferPoolsTest, KeepsRecordedPools) {
  trace_.in_pool({3, 0});
  add_segment_use(kSecondSegment);
  add_final_segment(kSecondSegment, kCached, kPool);
  for (const PoolId pool : inferred()) EXPECT_EQ(pool, (PoolId{3, 0}));
}

TEST_F(InferPoolsTest, IgnoresADeviceWithoutATrace) {
  infer_pools(trace_.snapshot(), DeviceIndex(9));
  EXPECT_TRUE(trace_.snapshot().device_traces[0].empty());
}

}  // namespace
}  // namespace ashlar
