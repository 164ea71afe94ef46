// SPDX-License-Identifier: Apache-2.0
//
// Tests layouts before the first entry of traces whose beginning is missing, and at later moments.
#include "analysis/layout.h"

#include <gtest/gtest.h>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

RecordedSizePolicy classic_sizes() {
  AllocatorOptions options;
  options.engine = EngineKind::kClassic;
  return RecordedSizePolicy(options);
}

Layout layout_at(const Snapshot& snapshot, std::optional<uint32_t> moment) {
  return reconstruct_layout(snapshot, kTraceDevice, find_allocations(snapshot, kTraceDevice),
                            classic_sizes(), moment);
}
Layout initial_layout(const Snapshot& snapshot) { return layout_at(snapshot, std::nullopt); }

SnapshotSegment large_segment(uint64_t address, size_t bytes) {
  SnapshotSegment segment;
  segment.address = DeviceAddress(address);
  segment.total_bytes = bytes;
  segment.is_large = true;
  return segment;
}

TEST(InitialLayoutTest, IsEmptyForCompleteTrace) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, 4096, 20 * kMiB).alloc(4096, 2 * kMiB);
  SnapshotSegment segment = large_segment(4096, 20 * kMiB);
  segment.blocks = {
      {DeviceAddress(4096), 2 * kMiB, 2 * kMiB, SnapshotBlockState::kAllocated, {}},
      {DeviceAddress(4096 + 2 * kMiB), 18 * kMiB, 0, SnapshotBlockState::kInactive, {}}};
  trace.snapshot().segments = {segment};
  const Layout start = initial_layout(trace.snapshot());
  EXPECT_TRUE(start.segments.empty());
}

TEST(InitialLayoutTest, RestoresFreedSegments) {
  TraceBuilder trace;
  trace.free(4096, 3 * kMiB).add(TraceAction::kSegmentFree, 4096, 20 * kMiB);
  const Layout start = initial_layout(trace.snapshot());
  ASSERT_EQ(start.segments.size(), 1U);
  const SnapshotSegment& segment = start.segments[0];
  EXPECT_TRUE(segment.is_large);
  ASSERT_EQ(segment.blocks.size(), 2U);
  EXPECT_EQ(segment.blocks[0].bytes, 3 * kMiB);
  EXPECT_EQ(segment.blocks[0].state, SnapshotBlockState::kAllocated);
  EXPECT_EQ(segment.blocks[1].bytes, 17 * kMiB);
  EXPECT_EQ(start.allocations, std::vector<uint32_t>{0});
}

TEST(InitialLayoutTest, KeepsRemaindersTooSmallToSplit) {
  TraceBuilder trace;
  trace.free(4096, 20 * kMiB - 1000).add(TraceAction::kSegmentFree, 4096, 20 * kMiB);
  const Layout start = initial_layout(trace.snapshot());
  ASSERT_EQ(start.segments[0].blocks.size(), 1U);
  EXPECT_EQ(start.segments[0].blocks[0].bytes, 20 * kMiB);
}

TEST(InitialLayoutTest, UsesFinalSizesOfLiveBlocks) {
  TraceBuilder trace;
  SnapshotSegment segment = large_segment(4096, 20 * kMiB);
  segment.blocks = {
      {DeviceAddress(4096), 12 * kMiB, 11 * kMiB, SnapshotBlockState::kAllocated, {}},
      {DeviceAddress(4096 + 12 * kMiB), 8 * kMiB, 0, SnapshotBlockState::kInactive, {}}};
  trace.snapshot().segments = {segment};
  trace.alloc(4096 + 12 * kMiB, 8 * kMiB).free(4096 + 12 * kMiB, 8 * kMiB);
  const Layout start = initial_layout(trace.snapshot());
  ASSERT_EQ(start.segments[0].blocks.size(), 2U);
  EXPECT_EQ(start.segments[0].blocks[0].bytes, 12 * kMiB);
  EXPECT_EQ(start.segments[0].blocks[1].state, SnapshotBlockState::kInactive);
}

TEST(InitialLayoutTest, RestoresMappedRanges) {
  TraceBuilder trace;
  SnapshotSegment segment = large_segment(20 * kMiB, 60 * kMiB);
  segment.is_expandable = true;
  trace.snapshot().segments = {segment};
  trace.add(TraceAction::kSegmentMap, 40 * kMiB, 20 * kMiB);
  trace.add(TraceAction::kSegmentUnmap, 80 * kMiB, 20 * kMiB);
  const Layout start = initial_layout(trace.snapshot());
  ASSERT_EQ(start.segments.size(), 2U);
  EXPECT_EQ(start.segments[0].total_bytes, 20 * kMiB);
  EXPECT_EQ(start.segments[1].address.value(), 60 * kMiB);
  EXPECT_EQ(start.segments[1].total_bytes, 40 * kMiB);
  EXPECT_TRUE(start.segments[1].is_expandable);
  EXPECT_EQ(layout_at(trace.snapshot(), 0).segments.size(), 1U);
  EXPECT_EQ(layout_at(trace.snapshot(), 1).reserved_bytes(), 60 * kMiB);
}

// The result must not contain empty blocks, which engines reject.
TEST(InitialLayoutTest, IgnoresEmptyBlocksAndSegments) {
  TraceBuilder trace;
  trace.free(4096, 0).free(4096 + kMiB, 2 * kMiB).free(4096 + kMiB, 3 * kMiB);
  SnapshotSegment segment = large_segment(4096, 20 * kMiB);
  segment.blocks = {{DeviceAddress(4096 + 8 * kMiB), 0, 100, SnapshotBlockState::kAllocated, {}}};
  trace.snapshot().segments = {segment, large_segment(40 * kMiB, 0)};
  const Layout start = initial_layout(trace.snapshot());
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

TEST(InitialLayoutTest, LimitsBlocksToTheirSegment) {
  TraceBuilder trace;
  trace.free(4096, SIZE_MAX).add(TraceAction::kSegmentFree, 4096, 20 * kMiB);
  const Layout start = initial_layout(trace.snapshot());
  ASSERT_EQ(start.segments[0].blocks.size(), 1U);
  EXPECT_EQ(start.segments[0].blocks[0].bytes, 20 * kMiB);
}

TEST(LayoutTest, PlacesBlocksUpToMoment) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 19 * kMiB + 1);
  trace.free(kBase, 19 * kMiB + 1).alloc(kBase, 3 * kMiB);
  trace.add(TraceAction::kFreeRequested, kBase, 3 * kMiB);
  trace.ends_with(kBase, 20 * kMiB, kCached);
  const auto blocks_at = [&](uint32_t moment) {
    return layout_at(trace.snapshot(), moment).segments.at(0).blocks;
  };
  ASSERT_EQ(blocks_at(1).size(), 1U) << "the remainder is too small to split off";
  EXPECT_EQ(blocks_at(1)[0].bytes, 20 * kMiB);
  EXPECT_EQ(blocks_at(1)[0].requested_bytes, 19 * kMiB + 1);
  EXPECT_EQ(blocks_at(3)[0].state, kCached);
  ASSERT_EQ(blocks_at(4).size(), 2U);
  EXPECT_EQ(blocks_at(4)[0].bytes, 3 * kMiB);
  EXPECT_EQ(blocks_at(5)[0].state, SnapshotBlockState::kPendingFree);
}

// A block that was allocated with an unsplit remainder keeps it until it is freed, even if the next
// block is freed first.
TEST(LayoutTest, KeepsBlockSizeFromAllocation) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 10 * kMiB);
  trace.alloc(kBase + 10 * kMiB, 10 * kMiB).free(kBase, 10 * kMiB);
  trace.alloc(kBase, 9 * kMiB + kMiB / 2).free(kBase + 10 * kMiB, 10 * kMiB);
  trace.ends_with(kBase, 20 * kMiB, kCached);
  const Layout layout = layout_at(trace.snapshot(), 7);
  EXPECT_EQ(layout.segments.at(0).blocks.at(0).bytes, 10 * kMiB);
  EXPECT_EQ(layout.allocations, std::vector<uint32_t>{2});
}

TEST(LayoutTest, TilesSegmentsOfInconsistentFiles) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 8 * kMiB);
  trace.alloc(kBase + 4 * kMiB, 30 * kMiB).alloc(kBase + 40 * kMiB, kMiB);
  trace.add(TraceAction::kSegmentAlloc, kBase + 2 * kMiB, 40 * kMiB);
  for (const SnapshotSegment& segment : layout_at(trace.snapshot(), 4).segments) {
    size_t bytes = 0;
    for (const SnapshotBlock& block : segment.blocks) {
      EXPECT_EQ(block.address, segment.address + bytes);
      EXPECT_GT(block.bytes, 0U);
      bytes += block.bytes;
    }
    EXPECT_EQ(bytes, segment.total_bytes);
  }
}

TEST(LayoutTest, ReleasesUnusedSegmentsAndGranules) {
  TraceBuilder trace;
  trace.ends_with(kBase, 20 * kMiB, kCached).ends_with(kBase + 20 * kMiB, 40 * kMiB, kLive);
  trace.in_pool({1, 0}).ends_with(kBase + 60 * kMiB, 40 * kMiB, kCached);
  SnapshotSegment expandable = large_segment(kBase + 200 * kMiB, 80 * kMiB);
  expandable.is_expandable = true;
  expandable.blocks = {
      {expandable.address, 30 * kMiB, 30 * kMiB, SnapshotBlockState::kAllocated, {}},
      {expandable.address + 30 * kMiB, 50 * kMiB, 0, SnapshotBlockState::kInactive, {}}};
  trace.snapshot().segments.push_back(expandable);
  EXPECT_EQ(releasable_bytes(trace.snapshot(), kTraceDevice, classic_sizes()), 60 * kMiB);
}

}  // namespace
}  // namespace ashlar
