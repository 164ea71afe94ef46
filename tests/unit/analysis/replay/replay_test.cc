// SPDX-License-Identifier: Apache-2.0
//
// Tests replays of small incomplete traces. tests/golden/replay_golden_test.cc replays complete
// traces.
#include "analysis/replay/replay.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

class ReplayTest : public testing::Test {
 protected:
  ReplayTest() {
    options_.recorded.engine = EngineKind::kClassic;
    options_.recorded.pytorch_compatible = true;
    options_.allocator = options_.recorded;
    options_.capacity_bytes = 8 * kGiB;
  }

  ReplayResult replayed() {
    const Allocations allocations = find_allocations(trace_.snapshot(), options_.device);
    Result<ReplayResult> result = replay(trace_.snapshot(), allocations, options_);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? *std::move(result) : ReplayResult();
  }

  TraceBuilder trace_;
  ReplayOptions options_;
};

TEST_F(ReplayTest, FreesADisplacedBlockFirst) {
  trace_.add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 20 * kMiB);
  trace_.alloc(kBase, 20 * kMiB);
  const ReplayResult result = replayed();
  EXPECT_EQ(result.stats.reserved_bytes.all.peak, 20 * kMiB);
  EXPECT_EQ(result.same_address_count, 2U);
}

TEST_F(ReplayTest, CompletesThePendingFreeOfADisplacedBlock) {
  trace_.add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 20 * kMiB);
  trace_.add(TraceAction::kFreeRequested, kBase, 20 * kMiB).add(TraceAction::kSnapshot, 0, 0);
  trace_.alloc(kBase, 20 * kMiB);
  const ReplayResult result = replayed();
  EXPECT_EQ(result.stats.reserved_bytes.all.peak, 20 * kMiB);
  EXPECT_EQ(result.same_address_count, 2U);
}

// The work of a replay does not depend on the requested sizes.
TEST_F(ReplayTest, MapsImplausibleSizesInLargeGranules) {
  constexpr size_t kTiB = 1024 * kGiB;
  for (uint64_t i = 0; i < 60; ++i) trace_.alloc(kBase + i * kTiB, kTiB);
  options_.capacity_bytes = sim::kMaxCapacityBytes;
  AllocatorOptions paged;
  paged.engine = EngineKind::kPaged;
  AllocatorOptions expandable = options_.recorded;
  expandable.expandable_segments = true;
  for (const AllocatorOptions& settings : {paged, expandable}) {
    options_.allocator = settings;
    const ReplayResult result = replayed();
    EXPECT_TRUE(result.ooms.empty());
    EXPECT_LE(result.driver.count_of(DeviceCall::kMap), 65'536U);
  }
}

TEST_F(ReplayTest, StopsWhenCancelled) {
  trace_.add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 20 * kMiB);
  const Allocations allocations = find_allocations(trace_.snapshot(), options_.device);
  options_.keep_going = [] { return true; };
  EXPECT_TRUE(replay(trace_.snapshot(), allocations, options_).ok());
  options_.keep_going = [] { return false; };
  EXPECT_TRUE(replay(trace_.snapshot(), allocations, options_).status().is(StatusKind::kTimeout));
}

TEST_F(ReplayTest, StopsInTheMiddleOfATrace) {
  for (uint64_t i = 0; i < 1000; ++i) trace_.alloc(kBase + i * kMiB, 512);
  const Allocations allocations = find_allocations(trace_.snapshot(), options_.device);
  uint32_t poll_count = 0;
  options_.keep_going = [&] { return ++poll_count < 3; };
  EXPECT_TRUE(replay(trace_.snapshot(), allocations, options_).status().is(StatusKind::kTimeout));
  EXPECT_EQ(poll_count, 3U);
}

constexpr uint64_t kSegment2 = kBase + 20 * kMiB;
constexpr uint64_t kSegment3 = kBase + 40 * kMiB;

AllocatorOptions other_settings() {
  AllocatorOptions options;
  options.engine = EngineKind::kClassic;
  options.pytorch_compatible = true;
  options.max_split_bytes = 64 * kMiB;
  return options;
}

// Free memory of a pool cannot serve requests outside of the pool.
TEST_F(ReplayTest, PlacesPreexistingAllocationsInTheirPool) {
  trace_.ends_with(kBase, 20 * kMiB, kLive).ends_with(kSegment3, 20 * kMiB, kLive);
  trace_.in_pool({0, 1}).ends_with(kSegment2, 20 * kMiB, kCached).free(kSegment2, 20 * kMiB);
  trace_.in_pool({}).add(TraceAction::kSegmentAlloc, kSegment3, 20 * kMiB);
  trace_.alloc(kSegment3, 20 * kMiB);
  for (const AllocatorOptions& settings : {options_.recorded, other_settings()}) {
    options_.allocator = settings;
    const ReplayResult result = replayed();
    EXPECT_EQ(result.start_reserved_bytes, 40 * kMiB);
    EXPECT_EQ(result.stats.reserved_bytes.all.peak, 60 * kMiB);
    EXPECT_EQ(result.free_count, 1U);
  }
}

TEST_F(ReplayTest, FailsIfPreexistingAllocationsDoNotFit) {
  trace_.ends_with(kBase, 20 * kMiB, kLive).ends_with(kSegment2, 20 * kMiB, kLive);
  trace_.alloc(kSegment3, kMiB);
  for (const bool is_cap : {false, true}) {
    options_.capacity_bytes = is_cap ? kGiB : 30 * kMiB;
    if (is_cap) options_.cap_bytes = 30 * kMiB;
    for (const AllocatorOptions& settings : {options_.recorded, other_settings()}) {
      options_.allocator = settings;
      const ReplayResult result = replayed();
      ASSERT_EQ(result.ooms.size(), 1U);
      EXPECT_FALSE(result.ooms[0].entry);
      EXPECT_EQ(result.ooms[0].bytes, 20 * kMiB);
      EXPECT_EQ(result.alloc_count, 1U) << "the run continues";
    }
  }
}

TEST_F(ReplayTest, StopsBeforeTheTraceIfTheInitialStateFails) {
  trace_.ends_with(kBase, 20 * kMiB, kLive).ends_with(kSegment2, 20 * kMiB, kLive);
  trace_.alloc(kSegment3, kMiB);
  options_.capacity_bytes = 30 * kMiB;
  options_.stop_at_oom = true;
  const ReplayResult result = replayed();
  EXPECT_EQ(result.alloc_count, 0U);
  EXPECT_EQ(result.inspected_segments.size(), 1U);
}

TEST_F(ReplayTest, SkipsInitiallyCachedSegmentsThatDoNotFit) {
  trace_.ends_with(kBase, 20 * kMiB, kCached).ends_with(kSegment2, 20 * kMiB, kLive);
  trace_.add(TraceAction::kSnapshot, 0, 0);
  options_.capacity_bytes = 30 * kMiB;
  const ReplayResult result = replayed();
  EXPECT_TRUE(result.ooms.empty());
  EXPECT_EQ(result.start_reserved_bytes, 20 * kMiB);
}

// Both segments are cached when the pool is released; the default pool keeps its segment.
TEST_F(ReplayTest, KeepsOtherCachesWhenAPoolIsReleased) {
  trace_.in_pool({}).add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 20 * kMiB);
  trace_.free(kBase, 20 * kMiB);
  trace_.in_pool({0, 1}).add(TraceAction::kSegmentAlloc, kSegment2, 20 * kMiB);
  trace_.alloc(kSegment2, 20 * kMiB).free(kSegment2, 20 * kMiB);
  trace_.add(TraceAction::kSegmentFree, kSegment2, 20 * kMiB);
  const ReplayResult result = replayed();
  EXPECT_EQ(result.fidelity->matched_count, 3U);
  EXPECT_EQ(result.stats.reserved_bytes.all.current, 20 * kMiB);
}

TEST_F(ReplayTest, ReleasesPoolsThatWereUsedAlternately) {
  trace_.in_pool({0, 1}).add(TraceAction::kSegmentAlloc, kSegment2, 20 * kMiB);
  trace_.alloc(kSegment2, 20 * kMiB).free(kSegment2, 20 * kMiB);
  trace_.in_pool({}).add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 20 * kMiB);
  trace_.in_pool({0, 1}).alloc(kSegment2, 20 * kMiB).free(kSegment2, 20 * kMiB);
  trace_.add(TraceAction::kSegmentFree, kSegment2, 20 * kMiB);
  const ReplayResult result = replayed();
  EXPECT_EQ(result.fidelity->matched_count, 3U);
  EXPECT_EQ(result.same_address_count, 3U);
  EXPECT_EQ(result.stats.reserved_bytes.all.current, 20 * kMiB);
}

// An inconsistent trace: the pool freed one segment but still uses another segment.
TEST_F(ReplayTest, CreatesANewPoolForAReleasedId) {
  trace_.in_pool({1, 0}).add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB);
  trace_.alloc(kBase, 20 * kMiB);
  trace_.add(TraceAction::kSegmentFree, kSegment3, 20 * kMiB);
  trace_.alloc(kSegment2, 20 * kMiB).free(kSegment2, 20 * kMiB);
  options_.inspect_after = 3;
  const ReplayResult result = replayed();
  EXPECT_EQ(result.stats.reserved_bytes.all.peak, 40 * kMiB);
  for (const SnapshotSegment& segment : result.inspected_segments) {
    EXPECT_EQ(segment.pool, (PoolId{1, 0})) << "as recorded";
  }
}

TEST_F(ReplayTest, SkipsAllocationsOfZeroBytes) {
  trace_.alloc(kSegment2, 0);
  trace_.add(TraceAction::kSegmentAlloc, kBase, 20 * kMiB).alloc(kBase, 20 * kMiB);
  const ReplayResult result = replayed();
  EXPECT_EQ(result.alloc_count, 1U);
  EXPECT_EQ(result.fidelity->matched_count, 1U);
  EXPECT_FALSE(result.fidelity->first_divergence);
}

// Every miss polls the pending frees. If they complete in the order of the requests, each poll
// queries a single event.
TEST_F(ReplayTest, PollsOneEventForPendingFreesThatCompleteInOrder) {
  constexpr uint64_t kCount = 300;
  for (uint64_t i = 0; i < kCount; ++i) {
    trace_.alloc(kBase + i * 20 * kMiB, 20 * kMiB);
    trace_.add(TraceAction::kFreeRequested, kBase + i * 20 * kMiB, 20 * kMiB);
  }
  for (uint64_t i = 0; i < kCount; ++i) {
    trace_.add(TraceAction::kFreeCompleted, kBase + i * 20 * kMiB, 20 * kMiB);
  }
  for (const EngineKind engine : {EngineKind::kClassic, EngineKind::kPaged}) {
    options_.allocator.engine = engine;
    const ReplayResult result = replayed();
    EXPECT_EQ(result.stats.reserved_bytes.all.peak, kCount * 20 * kMiB);
    EXPECT_LE(result.driver.count_of(DeviceCall::kIsDone), 2 * kCount);
    EXPECT_LE(result.driver.count_of(DeviceCall::kCreateStream), 1U);
  }
}

TEST_F(ReplayTest, HasNoDurationWithoutTimes) {
  trace_.alloc(kBase, kMiB).free(kBase, kMiB);
  EXPECT_EQ(replayed().recorded_us, 2.0);
  for (TraceEntry& entry : trace_.snapshot().device_traces[0]) entry.has_time = false;
  EXPECT_FALSE(replayed().recorded_us);
}

TEST_F(ReplayTest, HandlesTimesThatAreFarApart) {
  trace_.alloc(kBase, kMiB).free(kBase, kMiB);
  std::vector<TraceEntry>& entries = trace_.snapshot().device_traces[0];
  entries.front().time_us = INT64_MIN;
  entries.back().time_us = INT64_MAX;
  EXPECT_GT(replayed().recorded_us.value_or(0), 1.8e19);
}

}  // namespace
}  // namespace ashlar
