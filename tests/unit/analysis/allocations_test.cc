// SPDX-License-Identifier: Apache-2.0
//
// Tests which allocations are found in complete and incomplete traces.
#include "analysis/allocations.h"

#include <gtest/gtest.h>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr uint32_t kNoEntry = Allocation::kNoEntry;

TEST(AllocationsTest, AssemblesAnAllocationFromItsEntries) {
  TraceBuilder trace;
  trace.alloc(512, 100, 7).add(TraceAction::kFreeRequested, 512, 100, 7);
  trace.alloc(1024, 200).add(TraceAction::kFreeCompleted, 512, 100, 7);
  const Allocations found = find_allocations(trace.snapshot(), kTraceDevice);
  ASSERT_EQ(found.all.size(), 2U);
  const Allocation& first = found.all[0];
  EXPECT_EQ(first.alloc_entry, 0U);
  EXPECT_EQ(first.free_entry, 1U);
  EXPECT_EQ(first.completed_entry, 3U);
  EXPECT_EQ(first.stream, StreamId(7));
  EXPECT_EQ(found.all[1].free_entry, kNoEntry);
  EXPECT_EQ(found.by_entry, (std::vector<uint32_t>{0, 0, 1, 0}));
  EXPECT_EQ(found.preexisting_count, 0U);
}

TEST(AllocationsTest, DistinguishesReuseOfAnAddress) {
  TraceBuilder trace;
  trace.alloc(512, 100).free(512, 100).alloc(512, 300);
  const Allocations found = find_allocations(trace.snapshot(), kTraceDevice);
  ASSERT_EQ(found.all.size(), 2U);
  EXPECT_EQ(found.all[1].alloc_entry, 3U);
  EXPECT_EQ(found.all[1].bytes, 300U);
}

TEST(AllocationsTest, EndsADisplacedAllocation) {
  TraceBuilder trace;
  trace.alloc(512, 100).alloc(512, 300);
  const Allocations found = find_allocations(trace.snapshot(), kTraceDevice);
  ASSERT_EQ(found.all.size(), 2U);
  EXPECT_EQ(found.all[0].completed_entry, 1U);
  EXPECT_EQ(found.all[1].free_entry, kNoEntry);
  EXPECT_EQ(found.by_entry, (std::vector<uint32_t>{0, 1}));
  ASSERT_EQ(found.displaced.size(), 1U);
  EXPECT_EQ(found.displaced[0].entry, 1U);
  EXPECT_EQ(found.displaced[0].allocation, 0U);
}

TEST(AllocationsTest, VisitsDisplacedAllocationsFirst) {
  TraceBuilder trace;
  trace.alloc(512, 100).add(TraceAction::kSnapshot, 0, 0).alloc(512, 300).free(512, 300);
  std::vector<std::pair<uint32_t, size_t>> visited;
  for_each_change(find_allocations(trace.snapshot(), kTraceDevice),
                  [&](uint32_t entry, const Allocation& allocation) {
                    visited.emplace_back(entry, allocation.bytes);
                  });
  EXPECT_EQ(visited, (std::vector<std::pair<uint32_t, size_t>>{
                         {0, 100}, {2, 100}, {2, 300}, {3, 300}, {4, 300}}));
}

TEST(AllocationsTest, TreatsAFreeWithoutAllocAsPreexisting) {
  TraceBuilder trace;
  trace.free(512, 100).add(TraceAction::kFreeCompleted, 4096, 64);
  const Allocations found = find_allocations(trace.snapshot(), kTraceDevice);
  ASSERT_EQ(found.all.size(), 2U);
  EXPECT_EQ(found.preexisting_count, 2U);
  EXPECT_TRUE(found.all[0].predates_trace());
  EXPECT_EQ(found.all[0].free_entry, 0U);
  EXPECT_EQ(found.all[1].free_entry, 2U) << "its request was not recorded";
}

TEST(AllocationsTest, TreatsUntracedFinalBlocksAsPreexisting) {
  TraceBuilder trace;
  trace.alloc(512, 100);
  SnapshotSegment segment;
  segment.address = DeviceAddress(512);
  segment.stream = StreamId(3);
  segment.blocks = {{DeviceAddress(512), 512, 100, SnapshotBlockState::kAllocated, {}},
                    {DeviceAddress(1024), 512, 300, SnapshotBlockState::kAllocated, {}},
                    {DeviceAddress(1536), 512, 300, SnapshotBlockState::kInactive, {}}};
  trace.snapshot().segments = {segment};
  const Allocations found = find_allocations(trace.snapshot(), kTraceDevice);
  ASSERT_EQ(found.all.size(), 2U);
  EXPECT_TRUE(found.all[1].predates_trace());
  EXPECT_EQ(found.all[1].bytes, 300U);
  EXPECT_EQ(found.all[1].stream, StreamId(3));
}

TEST(AllocationsTest, FindsNoneWithoutATrace) {
  EXPECT_TRUE(find_allocations(Snapshot(), DeviceIndex(5)).all.empty());
}

TEST(AllocationsTest, DoesNotTakeStackFromFree) {
  TraceBuilder trace;
  trace.add(TraceAction::kFreeRequested, 2048, 50).from(9);
  trace.add(TraceAction::kFreeCompleted, 2048, 50).from(9);
  const Allocations alone = find_allocations(trace.snapshot(), kTraceDevice);
  EXPECT_EQ(alone.all[0].stack, StackId()) << "it is unknown whose stack that is";
  trace.alloc(512, 100).from(3).add(TraceAction::kFreeRequested, 512, 100).from(4);
  const Allocations found = find_allocations(trace.snapshot(), kTraceDevice);
  EXPECT_EQ(found.all[0].stack, StackId()) << "frees have stacks of their own";
  EXPECT_EQ(found.all[1].stack, StackId(3));
}

TEST(AllocationsTest, TakesStackFromFreeIfFreesHaveAllocStacks) {
  TraceBuilder trace;
  trace.add(TraceAction::kFreeCompleted, 2048, 50).from(9);
  trace.alloc(512, 100).from(3).add(TraceAction::kFreeCompleted, 512, 100).from(3);
  EXPECT_EQ(find_allocations(trace.snapshot(), kTraceDevice).all[0].stack, StackId(9));
}

}  // namespace
}  // namespace ashlar
