// SPDX-License-Identifier: Apache-2.0
//
// Tests leaks, and usage patterns that are not leaks.
#include "analysis/leaks.h"

#include <gtest/gtest.h>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr size_t kSteps = 200;

// Finds the leaks in a trace. Stack numbers equal StackIds.
LeakReport leaks_in(TraceBuilder& trace, const LeakOptions& options = {}) {
  return find_leaks(trace.snapshot().device_traces[0],
                    find_allocations(trace.snapshot(), kTraceDevice), {0, 1, 2, 3}, options);
}

// A training loop: weights at the start, then temporary allocations in every step. Entries are one
// microsecond apart.
class Loop {
 public:
  Loop() { trace.alloc(1, 1'000'000).from(1); }

  void step() {
    trace.alloc(2, 500'000).from(2);
    trace.free(2, 500'000);
  }
  void keep(size_t bytes, uint32_t stack) { trace.alloc(next_++, bytes).from(stack); }

  TraceBuilder trace;

 private:
  uint64_t next_ = 1000;
};

// The peak of live bytes, to which the minimum growth is relative, must not count displaced
// allocations.
TEST(LeaksTest, IgnoresDisplacedAllocations) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.trace.alloc(2, 1'000'000).from(2);  // displaces the previous allocation
    loop.keep(100, 3);
  }
  const LeakReport leaks = leaks_in(loop.trace, {.min_growth_fraction = 0.005});
  ASSERT_EQ(leaks.leaks.size(), 1U);
  EXPECT_EQ(leaks.leaks[0].group.stack, 3U);
}

TEST(LeaksTest, FloorIsNotLoweredByADisplacement) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.trace.alloc(2, 500'000).from(3);
    loop.keep(50'000, 3);
  }
  const LeakReport leaks = leaks_in(loop.trace);
  ASSERT_EQ(leaks.leaks.size(), 1U);
  EXPECT_GT(leaks.leaks[0].floors.back(), kSteps * 50'000);
}

TEST(LeaksTest, FindsAStackThatKeepsMemoryOfEveryStep) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    loop.keep(1000, 3);
  }
  const LeakReport leaks = leaks_in(loop.trace);
  EXPECT_TRUE(leaks.has_stacks);
  EXPECT_EQ(leaks.group_count, 3U);
  ASSERT_EQ(leaks.leaks.size(), 1U);
  const Leak& leak = leaks.leaks[0];
  EXPECT_EQ(leak.group.stack, 3U);
  EXPECT_EQ(leak.live_bytes, kSteps * 1000);
  EXPECT_EQ(leak.live_count, kSteps);
  // Each step keeps 1000 bytes and has four entries, one microsecond apart: 250 bytes per entry.
  EXPECT_NEAR(leak.bytes_per_1000_entries, 250'000, 5'000);
  ASSERT_TRUE(leak.bytes_per_second.has_value());
  EXPECT_NEAR(*leak.bytes_per_second, 250e6, 5e6);
  EXPECT_GT(leak.r_squared, 0.99);
  EXPECT_EQ(leak.rising_fraction, 1.0);
  EXPECT_NEAR(static_cast<double>(leak.growth_bytes), kSteps * 1000, kSteps * 1000 * 0.05);
}

TEST(LeaksTest, IgnoresSteadyUse) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) loop.step();
  EXPECT_TRUE(leaks_in(loop.trace).leaks.empty());
}

TEST(LeaksTest, IgnoresSetupAtAnyTime) {
  for (size_t when : {size_t{0}, kSteps / 2, kSteps - 10}) {
    Loop loop;
    for (size_t i = 0; i < kSteps; ++i) {
      loop.step();
      if (i == when) loop.keep(10'000'000, 3);
    }
    EXPECT_TRUE(leaks_in(loop.trace).leaks.empty()) << when;
  }
}

TEST(LeaksTest, FindsALeakOfAStackThatAlsoDidSetup) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    loop.keep(i == kSteps / 2 ? 150'000 : 1000, 3);
  }
  EXPECT_EQ(leaks_in(loop.trace).leaks.size(), 1U);
}

TEST(LeaksTest, IgnoresSetupInAFewSteps) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    if (i == kSteps / 4 || i == kSteps / 2 || i == kSteps * 3 / 4) loop.keep(1'000'000, 3);
  }
  EXPECT_TRUE(leaks_in(loop.trace).leaks.empty());
}

TEST(LeaksTest, IgnoresGrowthThatEndsEarly) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    if (i < kSteps / 4) loop.keep(100'000, 3);
  }
  EXPECT_TRUE(leaks_in(loop.trace).leaks.empty());
}

TEST(LeaksTest, IgnoresGrowingAllocationsThatAreFreedInBetween) {
  Loop loop;
  for (uint64_t i = 1; i <= kSteps; ++i) {
    loop.trace.alloc(7, i * 100'000).from(3);
    for (int use = 0; use < 20; ++use) loop.step();
    if (i < kSteps) loop.trace.free(7, i * 100'000);
  }
  EXPECT_TRUE(leaks_in(loop.trace).leaks.empty());
}

TEST(LeaksTest, IgnoresGrowthThatIsFreed) {
  Loop loop;
  for (size_t phase = 0; phase < 4; ++phase) {
    for (uint64_t i = 0; i < kSteps / 4; ++i) loop.trace.alloc(5000 + i, 9000).from(3);
    for (uint64_t i = 0; i < kSteps / 4; ++i) loop.trace.free(5000 + i, 9000);
  }
  EXPECT_TRUE(leaks_in(loop.trace).leaks.empty());
}

TEST(LeaksTest, IgnoresInsignificantGrowth) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    loop.keep(1, 3);
  }
  EXPECT_TRUE(leaks_in(loop.trace).leaks.empty());
  EXPECT_EQ(leaks_in(loop.trace, {.min_growth_fraction = 0}).leaks.size(), 1U);
}

TEST(LeaksTest, SortsByGrowth) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.keep(1000, 2);
    loop.keep(3000, 3);
  }
  const LeakReport leaks = leaks_in(loop.trace);
  ASSERT_EQ(leaks.leaks.size(), 2U);
  EXPECT_EQ(leaks.leaks[0].group.stack, 3U);
}

TEST(LeaksTest, GroupsBySizeAndStreamWithoutStacks) {
  TraceBuilder trace;
  for (uint64_t i = 0; i < kSteps; ++i) {
    trace.alloc(1, 5000, 4).free(1, 5000, 4).alloc(1000 + i, 5000, 7);
  }
  const LeakReport leaks = leaks_in(trace);
  EXPECT_FALSE(leaks.has_stacks);
  EXPECT_EQ(leaks.group_count, 2U);
  ASSERT_EQ(leaks.leaks.size(), 1U);
  EXPECT_EQ(leaks.leaks[0].group.stream, StreamId(7));
  EXPECT_EQ(leaks.leaks[0].group.size_class, 12U);
}

TEST(LeaksTest, HasNoGrowthPerSecondWithoutTimes) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) loop.keep(1000, 3);
  for (TraceEntry& entry : loop.trace.snapshot().device_traces[0]) {
    entry.has_time = false;
    entry.time_us = 0;
  }
  const LeakReport leaks = leaks_in(loop.trace);
  ASSERT_EQ(leaks.leaks.size(), 1U);
  EXPECT_FALSE(leaks.leaks[0].bytes_per_second.has_value());
}

TEST(LeaksTest, FindsNothingInAShortTrace) {
  TraceBuilder trace;
  trace.alloc(1, 100).alloc(2, 100);
  EXPECT_TRUE(leaks_in(trace).leaks.empty());
  EXPECT_TRUE(find_leaks({}, {}, {}).leaks.empty());
}

TEST(LeaksTest, EndsEarlyWhenCancelled) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) loop.keep(1000, 3);
  EXPECT_EQ(leaks_in(loop.trace, {.keep_going = [] { return true; }}).leaks.size(), 1U);
  EXPECT_EQ(leaks_in(loop.trace, {.keep_going = [] { return false; }}).leaks.size(), 0U);
}

}  // namespace
}  // namespace ashlar
