// SPDX-License-Identifier: Apache-2.0
//
// What addresses betray. The driver's rule: driver_addresses.h.
#include "analysis/replay/inferred_allocations.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

using Kind = UnseenAct::Kind;

constexpr uint64_t kTop = uint64_t{1} << 46;  // the end of the first new chunk

class UnseenTest : public ::testing::Test {
 protected:
  void takes(size_t mib, uint64_t at) { trace_.act(TraceAction::kSegmentAlloc, at, mib * kMiB); }
  void gives_back(uint64_t at) { trace_.act(TraceAction::kSegmentFree, at, kMiB); }
  std::vector<UnseenAct> acts() { return find_unseen(trace_.snapshot().device_traces[0]).acts; }

  // One act, and where.
  void expect_only(Kind kind, uint64_t begin, uint64_t end) {
    const std::vector<UnseenAct> found = acts();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].kind, kind);
    EXPECT_EQ(found[0].at.begin, begin);
    EXPECT_EQ(found[0].at.end, end);
  }

  TraceBuilder trace_;
};

TEST_F(UnseenTest, NothingIsAssumedWhereTheRuleHolds) {
  takes(20, kTop - 32 * kMiB);
  takes(20, kTop - 64 * kMiB);
  takes(2, kTop - 44 * kMiB);
  takes(12, kTop - 12 * kMiB);
  EXPECT_TRUE(acts().empty());
}

TEST_F(UnseenTest, AHoleThatIsPassedOverWasTaken) {
  takes(30, kTop - 32 * kMiB);
  takes(20, kTop - 64 * kMiB);
  takes(2, kTop - 2 * kMiB);
  const std::vector<UnseenAct> found = acts();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::kTook);
  EXPECT_EQ(found[0].entry, 2U);
  EXPECT_EQ(found[0].at.begin, kTop - 44 * kMiB);
  EXPECT_EQ(found[0].at.bytes(), 12 * kMiB) << "so that 2 MiB did not fit";
}

TEST_F(UnseenTest, WhatLiesBeforeASegmentInItsHoleWasTaken) {
  takes(20, kTop - 32 * kMiB);
  takes(2, kTop - 8 * kMiB);
  expect_only(Kind::kTook, kTop - 12 * kMiB, kTop - 8 * kMiB);
}

TEST_F(UnseenTest, ASegmentWithinNoKnownChunkRevealsOneUpToTheNext) {
  takes(20, kTop - 32 * kMiB);
  takes(40, kTop + 100 * kMiB);
  takes(20, kTop + 140 * kMiB);
  // The second lies behind the first in the same chunk.
  expect_only(Kind::kRevealed, kTop + 100 * kMiB, kTop + 160 * kMiB);
}

TEST_F(UnseenTest, RoomReachesToTheEndOfAChunkWhereNothingIsKnownBefore) {
  takes(20, kTop - 32 * kMiB);
  takes(40, kTop + 100 * kMiB);
  ASSERT_EQ(acts().size(), 1U);
  EXPECT_EQ(acts()[0].at.end, kTop + 160 * kMiB);
}

TEST_F(UnseenTest, AHoleThatIsUsedLaterWasFreeAndTheRevealedChunkIsNewer) {
  takes(20, kTop - 32 * kMiB);
  takes(2, kTop + 62 * kMiB);
  takes(2, kTop - 12 * kMiB);
  const std::vector<UnseenAct> found = acts();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::kRevealed);
}

TEST_F(UnseenTest, AHoleThatIsNotUsedLaterWasTakenBeforeAnOldChunkServed) {
  takes(20, kTop - 32 * kMiB);
  takes(2, kTop + 62 * kMiB);
  const std::vector<UnseenAct> found = acts();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].kind, Kind::kTook);
  EXPECT_EQ(found[0].at.begin, kTop - 12 * kMiB);
  EXPECT_EQ(found[1].kind, Kind::kRevealed);
}

TEST_F(UnseenTest, RoomEndsWhereAnotherSegmentBegins) {
  takes(32, kTop - 32 * kMiB);
  takes(2, kTop + 110 * kMiB);
  takes(20, kTop + 120 * kMiB);
  ASSERT_FALSE(acts().empty());
  EXPECT_EQ(acts()[0].kind, Kind::kRevealed);
  EXPECT_EQ(acts()[0].at.end, kTop + 120 * kMiB);
}

TEST_F(UnseenTest, SegmentsInARowThatIsLongerThanAChunkLieInAnOldOne) {
  takes(20, kTop - 32 * kMiB);
  takes(32, kTop + 320 * kMiB);
  takes(40, kTop + 352 * kMiB);
  expect_only(Kind::kRevealed, kTop + 320 * kMiB, kTop + 416 * kMiB);
}

TEST_F(UnseenTest, ANewChunkAboveTheOthersFoundAGap) {
  takes(20, kTop - 32 * kMiB);
  takes(20, kTop + 320 * kMiB);
  // 32 MiB more than the chunk.
  expect_only(Kind::kOpenedGap, kTop + 288 * kMiB, kTop + 352 * kMiB);
}

TEST_F(UnseenTest, ASegmentDirectlyAboveAChunkIsInAnOldOne) {
  takes(20, kTop - 32 * kMiB);
  takes(20, kTop);
  const std::vector<UnseenAct> found = acts();
  ASSERT_EQ(found.size(), 1U) << "a new chunk would have needed a wider gap";
  EXPECT_EQ(found[0].kind, Kind::kRevealed);
}

TEST_F(UnseenTest, WhatANewChunkLeavesOutAboveItIsClosed) {
  takes(20, kTop - 32 * kMiB);
  takes(20, kTop - 160 * kMiB);
  expect_only(Kind::kClosedGap, kTop - 128 * kMiB, kTop - 32 * kMiB);
}

TEST_F(UnseenTest, AddressesWithoutAnyRuleAreGivenUpInTheEnd) {
  for (uint64_t i = 0; i < 30'000; ++i) takes(2, kTop + (i * 7919 % 30'000) * 66 * kMiB);
  EXPECT_GE(acts().size(), 10'000U);
  EXPECT_LE(acts().size(), 10'100U);
}

TEST_F(UnseenTest, SegmentsThatOverlapAndAddressesThatCannotBeAreNoMatter) {
  takes(20, kTop - 32 * kMiB);
  takes(20, kTop - 30 * kMiB);
  takes(20, 0);
  takes(20, UINT64_MAX - kMiB);
  takes(size_t{1} << 43, kTop);
  takes(0, kTop);
  gives_back(kTop - 30 * kMiB);
  gives_back(12345);
  takes(2, kTop - 12 * kMiB);
  EXPECT_TRUE(acts().empty());
}

}  // namespace
}  // namespace ashlar
