// SPDX-License-Identifier: Apache-2.0
//
// Tests that explicit cache flushes are distinguished from flushes that failing allocations caused.
#include "analysis/replay/cache_flushes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr size_t kSegment = size_t{20} << 20;

class CacheFlushesTest : public ::testing::Test {
 protected:
  CacheFlushesTest() { recorded_.engine = EngineKind::kClassic; }
  std::vector<CacheFlush> found(size_t limit_bytes = SIZE_MAX) {
    return find_cache_flushes(trace_.snapshot().device_traces[0], {0, limit_bytes, &recorded_});
  }
  TraceBuilder trace_;
  AllocatorOptions recorded_;
};

TEST_F(CacheFlushesTest, IsExplicitIfTheDeviceWasNotFull) {
  trace_.add(TraceAction::kSegmentAlloc, 1, kSegment).add(TraceAction::kSegmentAlloc, 2, kSegment);
  trace_.add(TraceAction::kSegmentFree, 1, kSegment).add(TraceAction::kSegmentFree, 2, kSegment);
  trace_.add(TraceAction::kSegmentAlloc, 3, kSegment);
  const std::vector<CacheFlush> flushes = found();
  ASSERT_EQ(flushes.size(), 1U);
  EXPECT_EQ(flushes[0].begin, 2U);
  EXPECT_EQ(flushes[0].end, 4U);
  EXPECT_TRUE(flushes[0].is_explicit);
}

TEST_F(CacheFlushesTest, FindsNoneForThePagedEngine) {
  recorded_.engine = EngineKind::kPaged;
  trace_.add(TraceAction::kSegmentMap, 1, kSegment).add(TraceAction::kSegmentUnmap, 1, kSegment);
  EXPECT_THAT(found(), testing::IsEmpty());
}

TEST_F(CacheFlushesTest, IsImplicitAtTheMemoryLimit) {
  trace_.add(TraceAction::kSegmentAlloc, 1, kSegment).add(TraceAction::kSegmentFree, 1, kSegment);
  trace_.add(TraceAction::kSegmentAlloc, 3, kSegment);
  EXPECT_FALSE(found(kSegment).at(0).is_explicit);
  EXPECT_TRUE(found(2 * kSegment).at(0).is_explicit);
}

TEST_F(CacheFlushesTest, IsImplicitBeforeAFailure) {
  trace_.add(TraceAction::kSegmentAlloc, 1, kSegment).add(TraceAction::kSegmentFree, 1, kSegment);
  trace_.add(TraceAction::kOom, 0, kSegment);
  EXPECT_FALSE(found().at(0).is_explicit);
}

TEST_F(CacheFlushesTest, IsImplicitWithGarbageCollection) {
  recorded_.garbage_collection_threshold = 0.8;
  trace_.add(TraceAction::kSegmentAlloc, 1, kSegment).add(TraceAction::kSegmentFree, 1, kSegment);
  trace_.add(TraceAction::kSegmentAlloc, 3, kSegment);
  EXPECT_FALSE(found().at(0).is_explicit);
}

}  // namespace
}  // namespace ashlar
