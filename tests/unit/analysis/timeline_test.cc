// SPDX-License-Identifier: Apache-2.0
//
// Tests the bytes after each entry, peaks, plots, and the allocations that are present at a moment.
#include "analysis/timeline.h"

#include <gtest/gtest.h>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

struct AnalyzedTrace {
  Allocations allocations;
  Timeline timeline;
};

AnalyzedTrace analyze(const Snapshot& snapshot) {
  AnalyzedTrace analyzed = {.allocations = find_allocations(snapshot, kTraceDevice),
                            .timeline = {}};
  analyzed.timeline = make_timeline(snapshot, kTraceDevice, analyzed.allocations);
  return analyzed;
}

std::vector<size_t> values(const Timeline& timeline, size_t (*of)(const TimelinePoint&)) {
  std::vector<size_t> found;
  for (const TimelinePoint& point : timeline.points) found.push_back(of(point));
  return found;
}

size_t live(const TimelinePoint& point) { return point.live_bytes; }
size_t pending(const TimelinePoint& point) { return point.pending_bytes; }
size_t requested(const TimelinePoint& point) { return point.requested_bytes(); }
size_t reserved(const TimelinePoint& point) { return point.reserved_bytes; }

SnapshotSegment segment_of(size_t bytes) {
  SnapshotSegment segment;
  segment.total_bytes = bytes;
  return segment;
}

TEST(TimelineTest, CountsIdleExtentsAsReserved) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentMap, 100, 5);
  trace.snapshot().segments = {segment_of(5)};
  for (const uint64_t device : {0, 0, 1}) {
    SnapshotExtent extent;
    extent.device = DeviceIndex(device);
    extent.bytes = 7;
    trace.snapshot().extents.push_back(extent);
  }
  trace.snapshot().segments[0].is_expandable = true;
  trace.snapshot().extents[0].attached_address = DeviceAddress(100);
  trace.snapshot().extents[0].bytes = 5;
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  EXPECT_EQ(timeline.initial.reserved_bytes, 7U);
  EXPECT_EQ(timeline.last().reserved_bytes, 12U);
}

TEST(TimelineTest, CountsBytesAsPendingUntilTheFreeCompletes) {
  TraceBuilder trace;
  trace.alloc(512, 100).alloc(1024, 30);
  trace.add(TraceAction::kFreeRequested, 512, 100).add(TraceAction::kFreeCompleted, 512, 100);
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  EXPECT_EQ(values(timeline, live), (std::vector<size_t>{100, 130, 30, 30}));
  EXPECT_EQ(values(timeline, pending), (std::vector<size_t>{0, 0, 100, 0}));
  EXPECT_EQ(values(timeline, requested), (std::vector<size_t>{100, 130, 130, 30}));
}

TEST(TimelineTest, DoesNotCountDisplacedAllocations) {
  TraceBuilder trace;
  trace.alloc(512, 100).alloc(512, 300).add(TraceAction::kFreeRequested, 512, 300).alloc(512, 7);
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  EXPECT_EQ(values(timeline, live), (std::vector<size_t>{100, 300, 0, 7}));
  EXPECT_EQ(values(timeline, pending), (std::vector<size_t>{0, 0, 300, 0}));
  EXPECT_EQ(timeline.requested_peak.bytes, 300U);
}

TEST(TimelineTest, CountsPreexistingAllocationsFromTheStart) {
  TraceBuilder trace;
  trace.free(512, 100);
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  EXPECT_EQ(timeline.initial.live_bytes, 100U);
  EXPECT_EQ(timeline.requested_peak.bytes, 100U);
  EXPECT_FALSE(timeline.requested_peak.entry.has_value());
  EXPECT_EQ(timeline.last().requested_bytes(), 0U);
}

TEST(TimelineTest, DerivesReservedBytesFromFinalSegments) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, 0, 20).add(TraceAction::kSegmentMap, 100, 5);
  trace.add(TraceAction::kSegmentUnmap, 100, 5).add(TraceAction::kSegmentFree, 500, 7);
  trace.snapshot().segments = {segment_of(40), segment_of(10)};
  trace.snapshot().segments.push_back(segment_of(1000));
  trace.snapshot().segments.back().device = DeviceIndex(1);
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  EXPECT_EQ(timeline.initial.reserved_bytes, 37U);
  EXPECT_EQ(values(timeline, reserved), (std::vector<size_t>{57, 62, 57, 50}));
}

TEST(TimelineTest, NeverHasNegativeReservedBytes) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentFree, 0, 20).add(TraceAction::kSegmentAlloc, 0, 5);
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  EXPECT_EQ(values(timeline, reserved), (std::vector<size_t>{0, 5}));
}

TEST(TimelineTest, SurvivesImplausibleSizes) {
  TraceBuilder trace;
  trace.alloc(0, SIZE_MAX).alloc(512, SIZE_MAX);
  trace.add(TraceAction::kSegmentAlloc, 0, size_t{1} << 63);
  trace.add(TraceAction::kSegmentFree, 0, SIZE_MAX);
  EXPECT_EQ(analyze(trace.snapshot()).timeline.points.size(), 4U);
}

TEST(TimelineTest, PeakHasFirstEntryThatReachesIt) {
  TraceBuilder trace;
  trace.alloc(512, 100).free(512, 100).alloc(512, 100);
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  EXPECT_EQ(timeline.requested_peak.bytes, 100U);
  EXPECT_EQ(timeline.requested_peak.entry, 0U);
  EXPECT_EQ(timeline.requested_peak.time_us, 1);
}

TEST(TimelineTest, ReservedPeakHasTheMostRequestedBytes) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, 0, 1000).alloc(0, 10).alloc(512, 400).free(512, 400);
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  EXPECT_EQ(timeline.reserved_peak.bytes, 1000U);
  EXPECT_EQ(timeline.reserved_peak.entry, 2U);
  EXPECT_EQ(timeline.at(timeline.reserved_peak.entry).requested_bytes(), 410U);
}

TEST(TimelineTest, PeakHasNoTimeIfTheEntryHasNone) {
  TraceBuilder trace;
  trace.alloc(512, 100);
  trace.snapshot().device_traces[0][0].has_time = false;
  EXPECT_FALSE(analyze(trace.snapshot()).timeline.requested_peak.time_us.has_value());
}

TEST(TimelineTest, HasNoPointsWithoutATrace) {
  const Snapshot snapshot;
  EXPECT_TRUE(trace_of(snapshot, DeviceIndex(9)).empty());
  EXPECT_TRUE(analyze(snapshot).timeline.points.empty());
}

TEST(TimelineTest, DownsamplingKeepsExtremes) {
  TraceBuilder trace;
  for (uint64_t i = 1; i <= 4; ++i) trace.alloc(512 * i, 10);
  trace.free(512, 10).alloc(512, 500).free(512, 500);
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  const std::vector<ColumnRange> columns = downsample(timeline, Quantity::kRequested, 3);
  ASSERT_EQ(columns.size(), 3U);
  EXPECT_EQ(columns[0], (ColumnRange{.lowest = 0, .highest = 30}));
  EXPECT_EQ(columns[1], (ColumnRange{.lowest = 30, .highest = 40}));
  EXPECT_EQ(columns[2], (ColumnRange{.lowest = 30, .highest = 530}));
  EXPECT_EQ(column_of(timeline, 6, 3), 2U);
  EXPECT_EQ(column_of(timeline, std::nullopt, 3), 0U);
}

TEST(TimelineTest, ColumnWithoutEntriesKeepsThePreviousValue) {
  TraceBuilder trace;
  trace.alloc(512, 10).alloc(1024, 5);
  const Timeline timeline = analyze(trace.snapshot()).timeline;
  const std::vector<ColumnRange> columns = downsample(timeline, Quantity::kRequested, 4);
  EXPECT_EQ(columns[1], (ColumnRange{.lowest = 10, .highest = 10}));
  EXPECT_EQ(columns[3], (ColumnRange{.lowest = 15, .highest = 15}));
  EXPECT_EQ(downsample(Timeline(), Quantity::kReserved, 2).size(), 2U);
}

TEST(TimelineTest, PresentAllocationsIncludePendingFrees) {
  TraceBuilder trace;
  trace.alloc(512, 100).alloc(1024, 30).add(TraceAction::kFreeRequested, 512, 100);
  trace.add(TraceAction::kFreeCompleted, 512, 100).free(4096, 7);
  const Allocations allocations = analyze(trace.snapshot()).allocations;
  EXPECT_EQ(present_at(allocations, std::nullopt), (std::vector<uint32_t>{2}));
  EXPECT_EQ(present_at(allocations, 0), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(present_at(allocations, 2), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(present_at(allocations, 3), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(present_at(allocations, 5), (std::vector<uint32_t>{1}));
}

TEST(TimelineTest, GroupsByStackLargestFirst) {
  TraceBuilder trace;
  trace.alloc(512, 10).from(1).alloc(1024, 30).from(2).alloc(2048, 25).from(3);
  const Allocations allocations = analyze(trace.snapshot()).allocations;
  // Stacks 1 and 3 are equal.
  const std::vector<StackTotal> uses =
      group_by_stack(allocations, present_at(allocations, 2), {0, 7, 8, 7});
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0], (StackTotal{.stack = 7, .bytes = 35, .count = 2}));
  EXPECT_EQ(uses[1], (StackTotal{.stack = 8, .bytes = 30, .count = 1}));
}

TEST(TimelineTest, PeakReservedBytesEqualsTheTimelinePeak) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentFree, 512, 100).add(TraceAction::kSegmentAlloc, 1024, 70);
  trace.add(TraceAction::kSegmentMap, 4096, 40).add(TraceAction::kSegmentUnmap, 4096, 40);
  trace.snapshot().segments = {segment_of(70)};
  EXPECT_EQ(initial_reserved_bytes(trace.snapshot(), kTraceDevice), 100U);
  EXPECT_EQ(peak_reserved_bytes_of(trace.snapshot(), kTraceDevice), 110U);
  EXPECT_EQ(analyze(trace.snapshot()).timeline.reserved_peak.bytes, 110U);
  EXPECT_EQ(peak_reserved_bytes_of(trace.snapshot(), DeviceIndex(4)), 0U);
}

}  // namespace
}  // namespace ashlar
