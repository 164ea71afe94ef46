// SPDX-License-Identifier: Apache-2.0
//
// Tests the causes of the gap between reserved and requested bytes.
#include "analysis/gap_causes.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

SnapshotSegment segment_of(std::vector<SnapshotBlock> blocks) {
  SnapshotSegment segment;
  segment.is_large = true;
  segment.blocks = std::move(blocks);
  for (const SnapshotBlock& block : segment.blocks) {
    segment.total_bytes += block.bytes;
    if (block.state != SnapshotBlockState::kInactive) segment.active_bytes += block.bytes;
  }
  return segment;
}

SnapshotBlock used(size_t bytes, size_t requested) {
  return {{}, bytes, requested, SnapshotBlockState::kAllocated, {}};
}
SnapshotBlock unused(size_t bytes) { return {{}, bytes, 7, SnapshotBlockState::kInactive, {}}; }

constexpr RequestClass kDemand{StreamId(0), true, {}};

TEST(GapCausesTest, CountsEveryByteOnce) {
  SnapshotSegment elsewhere = segment_of({unused(1 << 20)});
  elsewhere.stream = StreamId(5);
  SnapshotSegment pooled = segment_of({used(512, 512), unused(1024)});
  pooled.pool = {1, 0};
  SnapshotSegment small = segment_of({used(1024, 1000), unused(2048)});
  small.is_large = false;
  SnapshotBlock pending = used(4096, 4000);
  pending.state = SnapshotBlockState::kPendingFree;
  const std::vector<SnapshotSegment> segments = {
      segment_of({used(1 << 20, 1000000), unused(100000)}),
      segment_of({unused(300000)}),
      segment_of({pending}),
      elsewhere,
      pooled,
      small};
  const GapCauses causes = explain_gap(segments, kDemand);
  EXPECT_EQ(causes.requested_bytes, 1000000U + 512 + 1000 + 4000);
  EXPECT_EQ(causes.rounding_bytes, (1U << 20) - 1000000 + 24 + 96);
  EXPECT_EQ(causes.fragmented_bytes, 100000U);
  EXPECT_EQ(causes.unused_bytes, 300000U);
  EXPECT_EQ(causes.other_stream_bytes, 1U << 20);
  EXPECT_EQ(causes.other_pool_bytes, 1024U);
  EXPECT_EQ(causes.other_size_pool_bytes, 2048U);
  size_t total = 0;
  for (const SnapshotSegment& segment : segments) total += segment.total_bytes;
  EXPECT_EQ(causes.reserved_bytes(), total);
}

TEST(GapCausesTest, IsZeroWithoutSegments) {
  EXPECT_EQ(explain_gap({}, kDemand).reserved_bytes(), 0U);
}

TEST(RequestClassTest, HasMostReservedBytes) {
  SnapshotSegment small = segment_of({used(2 << 20, 2 << 20)});
  small.is_large = false;
  SnapshotSegment large = segment_of({unused(20 << 20)});
  large.stream = StreamId(7);
  large.pool = {1, 0};
  const RequestClass request = dominant_request_class({small, large, small});
  EXPECT_TRUE(can_serve(large, request));
  EXPECT_FALSE(can_serve(small, request));
  large.pool = {};
  EXPECT_FALSE(can_serve(large, request));
  large.pool = {1, 0};
  large.stream = {};
  EXPECT_FALSE(can_serve(large, request));
}

}  // namespace
}  // namespace ashlar
