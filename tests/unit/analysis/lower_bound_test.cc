// SPDX-License-Identifier: Apache-2.0
//
// Compares the lower bound on the memory that a trace needs with the layout that the packer finds.
#include "analysis/lower_bound.h"

#include <gtest/gtest.h>

#include <map>

#include "analysis/timeline.h"
#include "base/random.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

LowerBound bound_of(TraceBuilder& trace) {
  return find_lower_bound(find_allocations(trace.snapshot(), kTraceDevice));
}

TEST(LowerBoundTest, IsThePeakOfConcurrentAllocations) {
  TraceBuilder trace;
  trace.alloc(0, 1000).free(0, 1000).alloc(0, 600).alloc(1024, 700);
  const LowerBound bound = bound_of(trace);
  EXPECT_EQ(bound.requested_bytes, 1300U);
  EXPECT_EQ(bound.rounded_bytes, 2048U);
  EXPECT_EQ(bound.packed_bytes, 2048U);
}

TEST(LowerBoundTest, CountsPendingFrees) {
  TraceBuilder trace;
  trace.alloc(0, 512).add(TraceAction::kFreeRequested, 0, 512).alloc(512, 512);
  trace.add(TraceAction::kFreeCompleted, 0, 512);
  EXPECT_EQ(bound_of(trace).packed_bytes, 1024U);
}

TEST(LowerBoundTest, IgnoresDisplacedAllocations) {
  TraceBuilder trace;
  trace.alloc(0, 512).alloc(0, 1024).alloc(0, 512).alloc(4096, 512);
  const LowerBound bound = bound_of(trace);
  EXPECT_EQ(bound.requested_bytes, 1024U);
  EXPECT_EQ(bound.packed_bytes, 1024U);
}

TEST(LowerBoundTest, CountsPreexistingAndUnfreedAllocations) {
  TraceBuilder trace;
  trace.alloc(0, 512).free(4096, 100).alloc(512, 512);
  const LowerBound bound = bound_of(trace);
  EXPECT_EQ(bound.requested_bytes, 1024U);
  EXPECT_EQ(bound.packed_bytes, 1024U);
}

TEST(LowerBoundTest, LifetimesSpanFromEntryToEndOfTrace) {
  TraceBuilder trace;
  trace.alloc(0, 1).free(4096, 513).alloc(512, 0);
  const std::vector<Lifetime> lifetimes =
      lifetimes_of(find_allocations(trace.snapshot(), kTraceDevice));
  ASSERT_EQ(lifetimes.size(), 2U) << "empty allocations are left out";
  EXPECT_EQ(lifetimes[0].begin, 1U);
  EXPECT_EQ(lifetimes[0].end, 5U);
  EXPECT_EQ(lifetimes[0].bytes, 512U);
  EXPECT_EQ(lifetimes[1].begin, 0U);
  EXPECT_EQ(lifetimes[1].end, 3U);
  EXPECT_EQ(lifetimes[1].bytes, 1024U);
}

TEST(LowerBoundTest, CountsFailedRequestAtItsEntry) {
  TraceBuilder trace;
  trace.alloc(0, 1000).add(TraceAction::kOom, 0, 5000).free(0, 1000);
  trace.alloc(0, 3000).add(TraceAction::kOom, 0, 512);
  const LowerBound bound = bound_of(trace);
  EXPECT_EQ(bound.requested_bytes, 6000U);
  EXPECT_EQ(bound.rounded_bytes, 1024U + 5120U);
  EXPECT_EQ(bound.packed_bytes, 1024U + 5120U);
  const Allocations allocations = find_allocations(trace.snapshot(), kTraceDevice);
  const Timeline timeline = make_timeline(trace.snapshot(), kTraceDevice, allocations);
  EXPECT_EQ(timeline.lower_bound.bytes, bound.requested_bytes);
  EXPECT_EQ(timeline.lower_bound.entry, 1U);
  EXPECT_EQ(timeline.requested_peak.bytes, 3000U);
}

TEST(LowerBoundTest, IsPeakOfRequestsIfFailedRequestNeedsLess) {
  TraceBuilder trace;
  trace.alloc(0, 9000).free(0, 9000).alloc(0, 1000).add(TraceAction::kOom, 0, 5000);
  const Allocations allocations = find_allocations(trace.snapshot(), kTraceDevice);
  const Timeline timeline = make_timeline(trace.snapshot(), kTraceDevice, allocations);
  EXPECT_EQ(find_lower_bound(allocations).requested_bytes, 9000U);
  EXPECT_EQ(timeline.lower_bound.bytes, 9000U);
  EXPECT_EQ(timeline.lower_bound.entry, 0U);
}

TEST(LowerBoundTest, BoundsAreOrderedOnRandomTraces) {
  Random random(11);
  for (int run = 0; run < 20; ++run) {
    TraceBuilder trace;
    std::map<uint64_t, size_t> live;
    for (uint64_t address = 1; address < 400; ++address) {
      live[address] = 1 + random.below(100'000);
      trace.alloc(address, live[address]);
      while (live.size() > 1 && random.below(2) == 0) {
        const auto victim =
            std::next(live.begin(), static_cast<ptrdiff_t>(random.below(live.size())));
        trace.free(victim->first, victim->second);
        live.erase(victim);
      }
    }
    const Allocations allocations = find_allocations(trace.snapshot(), kTraceDevice);
    const LowerBound bound = find_lower_bound(allocations);
    ASSERT_LE(bound.requested_bytes, bound.rounded_bytes) << run;
    ASSERT_LE(bound.rounded_bytes, bound.packed_bytes) << run;
    const std::vector<Lifetime> lifetimes = lifetimes_of(allocations);
    const Packing packing = pack(lifetimes, {.goal_bytes = bound.rounded_bytes});
    ASSERT_EQ(packing.height_bytes, bound.packed_bytes) << run;
    ASSERT_TRUE(is_valid_packing(lifetimes, packing)) << run;
  }
}

TEST(LowerBoundTest, SurvivesImplausibleSizes) {
  TraceBuilder trace;
  trace.alloc(0, SIZE_MAX).alloc(512, SIZE_MAX - 1);
  EXPECT_EQ(lifetimes_of(find_allocations(trace.snapshot(), kTraceDevice)).size(), 2U);
  EXPECT_GT(bound_of(trace).packed_bytes, 0U);
}

}  // namespace
}  // namespace ashlar
