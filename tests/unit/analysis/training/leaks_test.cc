// SPDX-License-Identifier: Apache-2.0
//
// Tests leaks, and usage patterns that are not leaks.
#include "analysis/training/leaks.h"

#include <gtest/gtest.h>

#include <deque>

#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr size_t kSteps = 20;
constexpr uint32_t kLine = 3;

// A loop whose iterations are known. Stack numbers equal StackIds.
class Loop {
 public:
  Loop() { trace_.alloc(1, 1'000'000).from(1); }

  void step() {
    const auto begin = static_cast<uint32_t>(entries());
    trace_.alloc(2, 500'000).from(2);
    trace_.free(2, 500'000);
    iterations_.all.push_back({.entries = {begin, begin}});
  }
  uint64_t keep(size_t bytes, uint32_t stack = kLine) {
    trace_.alloc(next_, bytes, 7).from(stack);
    return next_++;
  }
  void drop(uint64_t address) { trace_.free(address, 0, 7); }
  Iterations& iterations() {
    for (size_t i = 0; i < iterations_.all.size(); ++i) {
      const bool is_last = i + 1 == iterations_.all.size();
      iterations_.all[i].entries.end =
          is_last ? static_cast<uint32_t>(entries()) : iterations_.all[i + 1].entries.first;
    }
    return iterations_;
  }
  Snapshot& snapshot() { return trace_.snapshot(); }

  LeakReport leaks(const std::vector<uint32_t>& stack_numbers = {0, 1, 2, 3},
                   const LeakOptions& options = {}) {
    return find_leaks(find_allocations(trace_.snapshot(), kTraceDevice), iterations(),
                      stack_numbers, options);
  }

 private:
  size_t entries() { return trace_.snapshot().device_traces[0].size(); }

  TraceBuilder trace_;
  Iterations iterations_;
  uint64_t next_ = 1000;
};

TEST(LeaksTest, FindsLineThatKeepsMemoryInEachIteration) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    loop.keep(1000);
  }
  const LeakReport report = loop.leaks();
  EXPECT_TRUE(report.has_enough_iterations());
  EXPECT_TRUE(report.has_stacks);
  EXPECT_EQ(report.iteration_count, kSteps);
  EXPECT_EQ(report.group_count, 2U);  // excludes setup
  ASSERT_EQ(report.leaks.size(), 1U);
  const Leak& leak = report.leaks[0];
  EXPECT_EQ(leak.group.stack, kLine);
  EXPECT_EQ(leak.bytes_per_iteration, 1000);
  EXPECT_EQ(leak.growth_bytes, kSteps * 1000);
  EXPECT_EQ(leak.live_bytes, kSteps * 1000);
  EXPECT_EQ(leak.live_count, kSteps);
  EXPECT_EQ(leak.live_after[4], 5000U);
}

TEST(LeaksTest, NeedsThreeCompleteIterations) {
  Loop loop;
  for (int i = 0; i < 3; ++i) {
    loop.step();
    loop.keep(1000);
  }
  EXPECT_EQ(loop.leaks().leaks.size(), 1U);
  loop.iterations().all.back().is_complete = false;
  const LeakReport report = loop.leaks();
  EXPECT_FALSE(report.has_enough_iterations());
  EXPECT_TRUE(report.leaks.empty());
  EXPECT_EQ(report.problem, "at least 3 complete iterations are needed, and the recording has 2");
}

TEST(LeaksTest, ReportsWhyNoIterationsWereFound) {
  Iterations none;
  none.problem = "no optimizer step was found";
  EXPECT_EQ(find_leaks({}, none, {}).problem, "no optimizer step was found");
}

TEST(LeaksTest, FindsLineThatKeepsMemoryInSomeIterations) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    if (i % 3 == 1) loop.keep(3000);
  }
  const LeakReport report = loop.leaks();
  ASSERT_EQ(report.leaks.size(), 1U);
  EXPECT_EQ(report.leaks[0].bytes_per_iteration, 7.0 * 3000 / kSteps);
}

TEST(LeaksTest, FindsReplacementsByLargerAllocations) {
  Loop loop;
  uint64_t kept = 0;
  for (size_t i = 0; i < 8; ++i) {
    loop.step();
    const uint64_t longer = loop.keep((i + 1) * 400);
    if (i > 0) loop.drop(kept);
    kept = longer;
  }
  const LeakReport report = loop.leaks();
  ASSERT_EQ(report.leaks.size(), 1U);
  EXPECT_EQ(report.leaks[0].bytes_per_iteration, 400);
  EXPECT_EQ(report.leaks[0].live_count, 1U);
}

TEST(LeaksTest, ExcludesSetupInFirstIterationFromGrowth) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    if (i == 0) loop.keep(1'000'000);
    loop.keep(1000);
  }
  const LeakReport report = loop.leaks();
  ASSERT_EQ(report.leaks.size(), 1U);
  EXPECT_EQ(report.leaks[0].bytes_per_iteration, 1000);
}

TEST(LeaksTest, IgnoresSteadyUse) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) loop.step();
  EXPECT_TRUE(loop.leaks().leaks.empty());
}

TEST(LeaksTest, IgnoresAllocationsThatNextIterationReplaces) {
  Loop loop;
  uint64_t kept = 0;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    if (i > 0) loop.drop(kept);
    kept = loop.keep(1000 + (i * 7919) % 1000);  // sizes vary
  }
  EXPECT_TRUE(loop.leaks().leaks.empty());
}

TEST(LeaksTest, IgnoresBufferOfLatestResults) {
  for (const size_t limit : {2, 4, 9}) {
    Loop loop;
    std::deque<uint64_t> buffer;
    for (size_t i = 0; i < kSteps; ++i) {
      loop.step();
      buffer.push_back(loop.keep(1000 + (i * 7919) % 1000));
      if (buffer.size() <= limit) continue;
      loop.drop(buffer.front());
      buffer.pop_front();
    }
    EXPECT_TRUE(loop.leaks().leaks.empty()) << limit;
  }
}

TEST(LeaksTest, IgnoresSetupAtAnyTime) {
  for (size_t when : {size_t{0}, kSteps / 2, kSteps - 1}) {
    Loop loop;
    for (size_t i = 0; i < kSteps; ++i) {
      loop.step();
      if (i == when) loop.keep(10'000'000);
    }
    EXPECT_TRUE(loop.leaks().leaks.empty()) << when;
  }
}

TEST(LeaksTest, IgnoresGrowthThatEndsEarly) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    if (i < kSteps / 2) loop.keep(100'000);
  }
  EXPECT_TRUE(loop.leaks().leaks.empty());
}

TEST(LeaksTest, IgnoresGrowthThatIsFreed) {
  Loop loop;
  std::vector<uint64_t> kept;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    kept.push_back(loop.keep(9000));
    if (i % 5 != 4) continue;
    for (const uint64_t address : kept) loop.drop(address);
    kept.clear();
  }
  EXPECT_TRUE(loop.leaks().leaks.empty());
}

TEST(LeaksTest, SortsByGrowth) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    loop.keep(1000, 2);
    loop.keep(3000, 3);
  }
  const LeakReport report = loop.leaks();
  ASSERT_EQ(report.leaks.size(), 2U);
  EXPECT_EQ(report.leaks[0].group.stack, 3U);
}

TEST(LeaksTest, GroupsBySizeAndStreamWithoutStacks) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    loop.keep(5000);
  }
  const LeakReport report = loop.leaks({});
  EXPECT_FALSE(report.has_stacks);
  ASSERT_EQ(report.leaks.size(), 1U);
  EXPECT_EQ(report.leaks[0].group.stream, StreamId(7));
  EXPECT_EQ(report.leaks[0].group.size_class, 12U);
}

TEST(LeaksTest, EndsEarlyWhenCancelled) {
  Loop loop;
  for (size_t i = 0; i < kSteps; ++i) {
    loop.step();
    loop.keep(1000);
  }
  EXPECT_EQ(loop.leaks({0, 1, 2, 3}, {.keep_going = [] { return true; }}).leaks.size(), 1U);
  EXPECT_TRUE(loop.leaks({0, 1, 2, 3}, {.keep_going = [] { return false; }}).leaks.empty());
}

}  // namespace
}  // namespace ashlar
