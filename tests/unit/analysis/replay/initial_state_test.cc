// SPDX-License-Identifier: Apache-2.0
//
// Tests the initial state of traces whose first entries are missing.
#include "analysis/replay/initial_state.h"

#include <gtest/gtest.h>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

InitialState initial_state_of(const Snapshot& snapshot) {
  AllocatorOptions options;
  options.engine = EngineKind::kClassic;
  return reconstruct_initial_state(snapshot, kTraceDevice, find_allocations(snapshot, kTraceDevice),
                                   RecordedSizePolicy(options));
}

SnapshotSegment large_segment(uint64_t address, size_t bytes) {
  SnapshotSegment segment;
  segment.address = DeviceAddress(address);
  segment.total_bytes = bytes;
  segment.is_large = true;
  return segment;
}

TEST(InitialStateTest, IsEmptyForACompleteTrace) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, 4096, 20 * kMiB).alloc(4096, 2 * kMiB);
  SnapshotSegment segment = large_segment(4096, 20 * kMiB);
  segment.blocks = {
      {DeviceAddress(4096), 2 * kMiB, 2 * kMiB, SnapshotBlockState::kAllocated, {}},
      {DeviceAddress(4096 + 2 * kMiB), 18 * kMiB, 0, SnapshotBlockState::kInactive, {}}};
  trace.snapshot().segments = {segment};
  const InitialState start = initial_state_of(trace.snapshot());
  EXPECT_TRUE(start.segments.empty());
}

TEST(InitialStateTest, RestoresFreedSegments) {
  TraceBuilder trace;
  trace.free(4096, 3 * kMiB).add(TraceAction::kSegmentFree, 4096, 20 * kMiB);
  const InitialState start = initial_state_of(trace.snapshot());
  ASSERT_EQ(start.segments.size(), 1U);
  const SnapshotSegment& segment = start.segments[0];
  EXPECT_TRUE(segment.is_large);
  ASSERT_EQ(segment.blocks.size(), 2U);
  EXPECT_EQ(segment.blocks[0].bytes, 3 * kMiB);
  EXPECT_EQ(segment.blocks[0].state, SnapshotBlockState::kAllocated);
  EXPECT_EQ(segment.blocks[1].bytes, 17 * kMiB);
  EXPECT_EQ(start.allocations, std::vector<uint32_t>{0});
}

TEST(InitialStateTest, KeepsRemaindersTooSmallToSplit) {
  TraceBuilder trace;
  trace.free(4096, 20 * kMiB - 1000).add(TraceAction::kSegmentFree, 4096, 20 * kMiB);
  const InitialState start = initial_state_of(trace.snapshot());
  ASSERT_EQ(start.segments[0].blocks.size(), 1U);
  EXPECT_EQ(start.segments[0].blocks[0].bytes, 20 * kMiB);
}

TEST(InitialStateTest, UsesFinalSizesOfLiveBlocks) {
  TraceBuilder trace;
  SnapshotSegment segment = large_segment(4096, 20 * kMiB);
  segment.blocks = {
      {DeviceAddress(4096), 12 * kMiB, 11 * kMiB, SnapshotBlockState::kAllocated, {}},
      {DeviceAddress(4096 + 12 * kMiB), 8 * kMiB, 0, SnapshotBlockState::kInactive, {}}};
  trace.snapshot().segments = {segment};
  trace.alloc(4096 + 12 * kMiB, 8 * kMiB).free(4096 + 12 * kMiB, 8 * kMiB);
  const InitialState start = initial_state_of(trace.snapshot());
  ASSERT_EQ(start.segments[0].blocks.size(), 2U);
  EXPECT_EQ(start.segments[0].blocks[0].bytes, 12 * kMiB);
  EXPECT_EQ(start.segments[0].blocks[1].state, SnapshotBlockState::kInactive);
}

TEST(InitialStateTest, CountsExpandableSegmentsOnly) {
  TraceBuilder trace;
  SnapshotSegment segment = large_segment(4096, 60 * kMiB);
  segment.is_expandable = true;
  trace.snapshot().segments = {segment};
  trace.add(TraceAction::kSegmentMap, 4096, 20 * kMiB);
  const InitialState start = initial_state_of(trace.snapshot());
  EXPECT_EQ(start.expandable_bytes, 40 * kMiB);
}

// The result must not contain empty blocks, which engines reject.
TEST(InitialStateTest, IgnoresEmptyBlocksAndSegments) {
  TraceBuilder trace;
  trace.free(4096, 0).free(4096 + kMiB, 2 * kMiB).free(4096 + kMiB, 3 * kMiB);
  SnapshotSegment segment = large_segment(4096, 20 * kMiB);
  segment.blocks = {{DeviceAddress(4096 + 8 * kMiB), 0, 100, SnapshotBlockState::kAllocated, {}}};
  trace.snapshot().segments = {segment, large_segment(40 * kMiB, 0)};
  const InitialState start = initial_state_of(trace.snapshot());
  ASSERT_EQ(start.segments.size(), 1U);
  ASSERT_EQ(start.allocations.size(), 2U) << "of two at one address, the first wins";
  size_t bytes = 0;
  for (const SnapshotBlock& block : start.segments[0].blocks) {
    EXPECT_GT(block.bytes, 0U) << block.address.value();
    bytes += block.bytes;
  }
  EXPECT_EQ(bytes, 20 * kMiB);
  EXPECT_EQ(start.segments[0].blocks[1].bytes, 2 * kMiB);
}

TEST(InitialStateTest, LimitsBlocksToTheirSegment) {
  TraceBuilder trace;
  trace.free(4096, SIZE_MAX).add(TraceAction::kSegmentFree, 4096, 20 * kMiB);
  const InitialState start = initial_state_of(trace.snapshot());
  ASSERT_EQ(start.segments[0].blocks.size(), 1U);
  EXPECT_EQ(start.segments[0].blocks[0].bytes, 20 * kMiB);
}

}  // namespace
}  // namespace ashlar
