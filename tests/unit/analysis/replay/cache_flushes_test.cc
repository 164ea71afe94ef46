// SPDX-License-Identifier: Apache-2.0
//
// Which segments were given back because the program said so.
#include "analysis/replay/cache_flushes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr size_t kSegment = size_t{20} << 20;

class FlushesTest : public ::testing::Test {
 protected:
  FlushesTest() { recorded_.engine = EngineKind::kClassic; }
  std::vector<Flush> found(size_t limit_bytes = SIZE_MAX) {
    return find_flushes(trace_.snapshot().device_traces[0], {0, limit_bytes, &recorded_});
  }
  TraceBuilder trace_;
  AllocatorOptions recorded_;
};

TEST_F(FlushesTest, WithRoomLeftTheProgramAskedForIt) {
  trace_.act(TraceAction::kSegmentAlloc, 1, kSegment).act(TraceAction::kSegmentAlloc, 2, kSegment);
  trace_.act(TraceAction::kSegmentFree, 1, kSegment).act(TraceAction::kSegmentFree, 2, kSegment);
  trace_.act(TraceAction::kSegmentAlloc, 3, kSegment);
  const std::vector<Flush> flushes = found();
  ASSERT_EQ(flushes.size(), 1U);
  EXPECT_EQ(flushes[0].begin, 2U);
  EXPECT_EQ(flushes[0].end, 4U);
  EXPECT_TRUE(flushes[0].asked_for);
}

TEST_F(FlushesTest, ThePagedEngineUnmapsWithoutBeingAsked) {
  recorded_.engine = EngineKind::kPaged;
  trace_.act(TraceAction::kSegmentMap, 1, kSegment).act(TraceAction::kSegmentUnmap, 1, kSegment);
  EXPECT_THAT(found(), testing::IsEmpty());
}

TEST_F(FlushesTest, WithoutRoomAnAllocationDidIt) {
  trace_.act(TraceAction::kSegmentAlloc, 1, kSegment).act(TraceAction::kSegmentFree, 1, kSegment);
  trace_.act(TraceAction::kSegmentAlloc, 3, kSegment);
  EXPECT_FALSE(found(kSegment).at(0).asked_for);
  EXPECT_TRUE(found(2 * kSegment).at(0).asked_for);
}

TEST_F(FlushesTest, BeforeAFailureAnAllocationDidIt) {
  trace_.act(TraceAction::kSegmentAlloc, 1, kSegment).act(TraceAction::kSegmentFree, 1, kSegment);
  trace_.act(TraceAction::kOom, 0, kSegment);
  EXPECT_FALSE(found().at(0).asked_for);
}

TEST_F(FlushesTest, CollectionByAgeDoesItByItself) {
  recorded_.garbage_collection_threshold = 0.8;
  trace_.act(TraceAction::kSegmentAlloc, 1, kSegment).act(TraceAction::kSegmentFree, 1, kSegment);
  trace_.act(TraceAction::kSegmentAlloc, 3, kSegment);
  EXPECT_FALSE(found().at(0).asked_for);
}

}  // namespace
}  // namespace ashlar
