// SPDX-License-Identifier: Apache-2.0
//
// Tests the comparison of two recordings.
#include "analysis/diff.h"

#include <gtest/gtest.h>

#include "analysis/timeline.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

// One of the two recordings, with all allocations that are present at the end. Stack numbers equal
// StackIds.
struct Side {
  explicit Side(TraceBuilder& trace)
      : allocations(find_allocations(trace.snapshot(), kTraceDevice)),
        present(present_at(allocations, static_cast<uint32_t>(allocations.by_entry.size()))) {}

  DiffSide as_diff_side() const { return {allocations, numbers, present}; }

  Allocations allocations;
  std::vector<uint32_t> numbers = {0, 1, 2, 3};
  std::vector<uint32_t> present;
};

Diff diff_of(TraceBuilder& base, TraceBuilder& now) {
  const Side left(base);
  const Side right(now);
  return make_diff(left.as_diff_side(), right.as_diff_side());
}

TEST(DiffTest, SortsByAbsoluteDifference) {
  TraceBuilder base;
  base.alloc(0, 100).from(1).alloc(1, 900).from(2).alloc(2, 50).from(3);
  TraceBuilder now;
  now.alloc(0, 300).from(1).alloc(1, 10).from(2).alloc(2, 10).from(2).alloc(3, 50).from(3);
  const Diff diff = diff_of(base, now);
  ASSERT_EQ(diff.by_stack.size(), 3U);
  EXPECT_EQ(
      diff.by_stack[0],
      (DiffRow{.key = 2, .base_bytes = 900, .base_count = 1, .new_bytes = 20, .new_count = 2}));
  EXPECT_EQ(diff.by_stack[0].difference(), -880);
  EXPECT_EQ(diff.by_stack[1].key, 1U);
  EXPECT_EQ(diff.by_stack[1].difference(), 200);
  EXPECT_EQ(diff.by_stack[2].difference(), 0);
}

TEST(DiffTest, IncludesRowsOfOnlyOneRecording) {
  TraceBuilder base;
  base.alloc(0, 100).from(1);
  TraceBuilder now;
  now.alloc(0, 70).from(2);
  const Diff diff = diff_of(base, now);
  ASSERT_EQ(diff.by_stack.size(), 2U);
  EXPECT_EQ(diff.by_stack[0].new_count, 0U);
  EXPECT_EQ(diff.by_stack[1].base_count, 0U);
}

TEST(DiffTest, GroupsSizesByPowersOfTwo) {
  TraceBuilder base;
  base.alloc(0, 1023).alloc(1, 1024).alloc(2, 2047);
  TraceBuilder now;
  now.alloc(0, 2048);
  const Diff diff = diff_of(base, now);
  ASSERT_EQ(diff.by_size_class.size(), 3U);
  EXPECT_EQ(diff.by_size_class[0].key, 10U);
  EXPECT_EQ(diff.by_size_class[0].base_bytes, 3071U);
  EXPECT_EQ(diff.by_size_class[1].key, 11U);
  EXPECT_EQ(diff.by_size_class[2].key, 9U);
}

TEST(DiffTest, MatchesStreamsByOrderOfAppearance) {
  TraceBuilder base;
  base.alloc(0, 1, 0x7f10).free(0, 1, 0x7f10).alloc(1, 100, 0x7f90).alloc(2, 5);
  TraceBuilder now;
  now.alloc(0, 1, 0x5510).free(0, 1, 0x5510).alloc(1, 80, 0x5300).alloc(2, 5);
  const Diff diff = diff_of(base, now);
  ASSERT_EQ(diff.by_stream.size(), 2U);
  EXPECT_EQ(diff.by_stream[0].key, 2U);
  EXPECT_EQ(diff.by_stream[0].difference(), -20);
  EXPECT_EQ(diff.by_stream[1].key, 0U);
}

TEST(DiffTest, IsEmptyForEmptyRecordings) {
  TraceBuilder base;
  TraceBuilder now;
  EXPECT_TRUE(diff_of(base, now).by_stack.empty());
}

TEST(DiffTest, EndsEarlyWhenCancelled) {
  TraceBuilder trace;
  trace.alloc(0, 100).from(1);
  const Side side(trace);
  const Diff diff = make_diff(side.as_diff_side(), side.as_diff_side(), [] { return false; });
  EXPECT_EQ(diff.by_stack.size(), 0U);
}

}  // namespace
}  // namespace ashlar
