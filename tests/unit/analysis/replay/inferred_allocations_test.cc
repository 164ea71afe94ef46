// SPDX-License-Identifier: Apache-2.0
//
// Tests allocations that are inferred from recorded addresses. The expected addresses follow the
// rules by which drivers place memory (device/sim/driver_addresses.h).
#include "analysis/replay/inferred_allocations.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

using Kind = InferredEvent::Kind;

class InferredAllocationsTest : public ::testing::Test {
 protected:
  void allocate_segment(size_t mib, uint64_t at) {
    trace_.add(TraceAction::kSegmentAlloc, at, mib * kMiB);
  }
  void free_segment(uint64_t at) { trace_.add(TraceAction::kSegmentFree, at, kMiB); }
  std::vector<InferredEvent> events() {
    return infer_allocations(trace_.snapshot().device_traces[0]).events;
  }

  // Expects exactly one event.
  void expect_only(Kind kind, uint64_t begin, uint64_t end) {
    const std::vector<InferredEvent> found = events();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].kind, kind);
    EXPECT_EQ(found[0].range.begin, begin);
    EXPECT_EQ(found[0].range.end, end);
  }

  TraceBuilder trace_;
};

TEST_F(InferredAllocationsTest, InfersNothingIfTheRuleHolds) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(20, kFirstChunkEnd - 64 * kMiB);
  allocate_segment(2, kFirstChunkEnd - 44 * kMiB);
  allocate_segment(12, kFirstChunkEnd - 12 * kMiB);
  EXPECT_TRUE(events().empty());
}

TEST_F(InferredAllocationsTest, InfersAnAllocationInASkippedHole) {
  allocate_segment(30, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(20, kFirstChunkEnd - 64 * kMiB);
  allocate_segment(2, kFirstChunkEnd - 2 * kMiB);
  const std::vector<InferredEvent> found = events();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::kAllocated);
  EXPECT_EQ(found[0].entry, 2U);
  EXPECT_EQ(found[0].range.begin, kFirstChunkEnd - 44 * kMiB);
  EXPECT_EQ(found[0].range.bytes(), 12 * kMiB) << "2 MiB must not fit";
}

TEST_F(InferredAllocationsTest, InfersAnAllocationBeforeASegmentInAHole) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(2, kFirstChunkEnd - 8 * kMiB);
  expect_only(Kind::kAllocated, kFirstChunkEnd - 12 * kMiB, kFirstChunkEnd - 8 * kMiB);
}

TEST_F(InferredAllocationsTest, FindsSpaceUpToTheNextChunk) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(40, kFirstChunkEnd + 100 * kMiB);
  allocate_segment(20, kFirstChunkEnd + 140 * kMiB);
  // The third segment follows the second in the same chunk, so only one event is inferred.
  expect_only(Kind::kFoundSpace, kFirstChunkEnd + 100 * kMiB, kFirstChunkEnd + 160 * kMiB);
}

TEST_F(InferredAllocationsTest, FindsSpaceUpToTheEndOfAChunk) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(40, kFirstChunkEnd + 100 * kMiB);
  ASSERT_EQ(events().size(), 1U);
  EXPECT_EQ(events()[0].range.end, kFirstChunkEnd + 160 * kMiB);
}

TEST_F(InferredAllocationsTest, PrefersFoundSpaceToAHoleUsedLater) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(2, kFirstChunkEnd + 62 * kMiB);
  allocate_segment(2, kFirstChunkEnd - 12 * kMiB);
  const std::vector<InferredEvent> found = events();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::kFoundSpace);
}

TEST_F(InferredAllocationsTest, FillsAHoleThatIsNotUsedLater) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(2, kFirstChunkEnd + 62 * kMiB);
  const std::vector<InferredEvent> found = events();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].kind, Kind::kAllocated);
  EXPECT_EQ(found[0].range.begin, kFirstChunkEnd - 12 * kMiB);
  EXPECT_EQ(found[1].kind, Kind::kFoundSpace);
}

TEST_F(InferredAllocationsTest, EndsFoundSpaceAtAnotherSegment) {
  allocate_segment(32, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(2, kFirstChunkEnd + 110 * kMiB);
  allocate_segment(20, kFirstChunkEnd + 120 * kMiB);
  ASSERT_FALSE(events().empty());
  EXPECT_EQ(events()[0].kind, Kind::kFoundSpace);
  EXPECT_EQ(events()[0].range.end, kFirstChunkEnd + 120 * kMiB);
}

TEST_F(InferredAllocationsTest, PutsALongRunOfSegmentsInAnOldChunk) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(32, kFirstChunkEnd + 320 * kMiB);
  allocate_segment(40, kFirstChunkEnd + 352 * kMiB);
  expect_only(Kind::kFoundSpace, kFirstChunkEnd + 320 * kMiB, kFirstChunkEnd + 416 * kMiB);
}

TEST_F(InferredAllocationsTest, InfersAGapForANewChunkAboveOthers) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(20, kFirstChunkEnd + 320 * kMiB);
  // The gap is 32 MiB larger than the chunk.
  expect_only(Kind::kGapOpened, kFirstChunkEnd + 288 * kMiB, kFirstChunkEnd + 352 * kMiB);
}

TEST_F(InferredAllocationsTest, PutsASegmentAboveAChunkInAnOldChunk) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(20, kFirstChunkEnd);
  const std::vector<InferredEvent> found = events();
  ASSERT_EQ(found.size(), 1U) << "a new chunk would have needed a wider gap";
  EXPECT_EQ(found[0].kind, Kind::kFoundSpace);
}

TEST_F(InferredAllocationsTest, ClosesTheGapAboveANewChunk) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(20, kFirstChunkEnd - 160 * kMiB);
  expect_only(Kind::kGapClosed, kFirstChunkEnd - 128 * kMiB, kFirstChunkEnd - 32 * kMiB);
}

TEST_F(InferredAllocationsTest, GivesUpOnRandomAddresses) {
  for (uint64_t i = 0; i < 30'000; ++i)
    allocate_segment(2, kFirstChunkEnd + (i * 7919 % 30'000) * 66 * kMiB);
  EXPECT_GE(events().size(), 10'000U);
  EXPECT_LE(events().size(), 10'100U);
}

TEST_F(InferredAllocationsTest, SurvivesOverlapsAndImplausibleAddresses) {
  allocate_segment(20, kFirstChunkEnd - 32 * kMiB);
  allocate_segment(20, kFirstChunkEnd - 30 * kMiB);
  allocate_segment(20, 0);
  allocate_segment(20, UINT64_MAX - kMiB);
  allocate_segment(size_t{1} << 43, kFirstChunkEnd);
  allocate_segment(0, kFirstChunkEnd);
  free_segment(kFirstChunkEnd - 30 * kMiB);
  free_segment(12345);
  allocate_segment(2, kFirstChunkEnd - 12 * kMiB);
  EXPECT_TRUE(events().empty());
}

}  // namespace
}  // namespace ashlar
