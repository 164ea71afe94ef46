// SPDX-License-Identifier: Apache-2.0
//
// Tests explanations of out-of-memory failures in small traces.
#include "analysis/replay/oom.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr uint64_t kBlock2 = kBase + 100 * kMiB;
constexpr uint64_t kOomSegment = kBase + 200 * kMiB;
constexpr uint64_t kPlentyBytes = 100 * kGiB;

// Two segments of 40 MiB, one with a hole of 20 MiB and one with a hole of 19 MiB.
class OomTest : public testing::Test {
 protected:
  OomTest() {
    trace_.add(TraceAction::kSegmentAlloc, kBase, 40 * kMiB).alloc(kBase, 40 * kMiB);
    trace_.add(TraceAction::kSegmentAlloc, kBlock2, 40 * kMiB).alloc(kBlock2, 40 * kMiB);
    trace_.free(kBase, 40 * kMiB).free(kBlock2, 40 * kMiB);
    trace_.alloc(kBase, 20 * kMiB).from(3);
    trace_.alloc(kBlock2, 21 * kMiB).from(4);
    options_.recorded.engine = EngineKind::kClassic;
    options_.recorded.pytorch_compatible = true;
    options_.capacity_bytes = 8 * kGiB;
  }

  void fail_allocation(size_t bytes, size_t device_free_bytes) {
    trace_.add(TraceAction::kOom, device_free_bytes, bytes).from(5);
  }

  std::optional<OomReport> explain() {
    const Allocations allocations = find_allocations(trace_.snapshot(), kTraceDevice);
    if (!is_limit_given_) {
      const Result<ReplayLimits> limits = find_limits(
          trace_.snapshot(), allocations, {.device = kTraceDevice, .recorded = options_.recorded});
      EXPECT_TRUE(limits.ok()) << limits.status().to_string();
      if (limits.ok() && limits->recorded) {
        options_.capacity_bytes = limits->capacity_bytes;
        options_.cap_bytes = limits->cap_bytes;
        options_.recorded_limit = limits->recorded;
      }
    }
    Result<std::optional<OomReport>> report = explain_oom(trace_.snapshot(), allocations, options_);
    EXPECT_TRUE(report.ok()) << report.status().to_string();
    return report.ok() ? *std::move(report) : std::nullopt;
  }

  static bool fits(const OomReport& report, const std::string& conf) {
    for (const Trial& trial : report.settings.trials) {
      if (trial.setting.conf == conf) return trial.completes();
    }
    ADD_FAILURE() << "no setting " << conf;
    return false;
  }

  TraceBuilder trace_;
  TuneOptions options_;
  bool is_limit_given_ = false;
};

TEST_F(OomTest, ExplainsARecordedFailure) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->entry, 10U);
  EXPECT_TRUE(report->was_recorded);
  EXPECT_FALSE(report->requested_bytes);
  EXPECT_EQ(report->rounded_bytes, 30 * kMiB);
  EXPECT_EQ(report->segment_bytes, 30 * kMiB);
  EXPECT_EQ(report->device_free_bytes, kPlentyBytes);
  EXPECT_EQ(report->stack, StackId(5));
  EXPECT_TRUE(report->is_reproduced);
  EXPECT_EQ(report->failure_count, 1U);
  EXPECT_EQ(report->state.reserved_bytes, 80 * kMiB);
  EXPECT_EQ(report->state.allocated_bytes, 41 * kMiB);
  EXPECT_EQ(report->state.free_bytes, 39 * kMiB);
  EXPECT_EQ(report->state.usable_free_bytes, 39 * kMiB);
  EXPECT_EQ(report->state.largest_usable_hole_bytes, 20 * kMiB);
}

TEST_F(OomTest, ListsOccupyingBlocksWithStackAndAge) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  ASSERT_EQ(report->state.occupied_segments.size(), 2U);
  const OccupiedSegment& most = report->state.occupied_segments[0];
  EXPECT_EQ(most.total_bytes, 40 * kMiB);
  EXPECT_EQ(most.free_bytes, 20 * kMiB);
  EXPECT_TRUE(most.is_usable);
  ASSERT_EQ(most.largest_blocks.size(), 1U);
  EXPECT_EQ(most.largest_blocks[0].bytes, 20 * kMiB);
  EXPECT_EQ(most.largest_blocks[0].stack, StackId(3));
  EXPECT_EQ(most.largest_blocks[0].alloc_entry, 8U);
  EXPECT_EQ(most.largest_blocks[0].age_us, 2);
  EXPECT_EQ(report->state.occupied_segments[1].largest_blocks[0].stack, StackId(4));
}

TEST_F(OomTest, InfersTheLimitFromGrantedAndRefusedBytes) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->limit.is_inferred());
  EXPECT_EQ(report->limit.at_least_bytes, 80 * kMiB);
  EXPECT_EQ(report->limit.below_bytes, 110 * kMiB);
}

TEST_F(OomTest, UsesTheFreeMemoryOfAFullDevice) {
  fail_allocation(30 * kMiB, 5 * kMiB);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->limit.is_device_limit);
  EXPECT_EQ(report->limit.at_least_bytes, 85 * kMiB);
  EXPECT_EQ(report->state.free_bytes, 39 * kMiB);
  EXPECT_EQ(report->obtainable_bytes(), 5 * kMiB);
  EXPECT_EQ(report->limit.below_bytes, 110 * kMiB);
}

TEST_F(OomTest, UsesTheLimitAtTheTimeOfTheFailure) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  trace_.add(TraceAction::kSegmentAlloc, kOomSegment, 100 * kMiB).alloc(kOomSegment, 100 * kMiB);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->limit.at_least_bytes, 80 * kMiB);
  EXPECT_EQ(report->limit.below_bytes, 110 * kMiB);
  EXPECT_EQ(report->entry, 10U);
  EXPECT_TRUE(report->limit.varies);
  EXPECT_EQ(report->needed_bytes, 71 * kMiB) << "what was in use at the failure, and the request";
  EXPECT_EQ(report->excess_bytes(), 0U);
  EXPECT_EQ(report->reason, OomReason::kFragmented);
  EXPECT_FALSE(report->can_compare()) << "under which limit the run should complete is unknown";
}

// Other processes take memory after the run has used and returned 200 MiB.
TEST_F(OomTest, ShrinkingLimitIncludesFreeDeviceMemory) {
  TraceBuilder shrunk;
  shrunk.add(TraceAction::kSegmentAlloc, kOomSegment, 200 * kMiB).alloc(kOomSegment, 200 * kMiB);
  shrunk.free(kOomSegment, 200 * kMiB).add(TraceAction::kSegmentFree, kOomSegment, 200 * kMiB);
  for (const TraceEntry& entry : trace_.snapshot().device_traces[0]) {
    shrunk.snapshot().device_traces[0].push_back(entry);
  }
  trace_ = shrunk;
  fail_allocation(30 * kMiB, 5 * kMiB);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->limit.varies);
  EXPECT_TRUE(report->limit.is_device_limit);
  EXPECT_EQ(report->limit.at_least_bytes, 85 * kMiB);
  EXPECT_EQ(report->limit.below_bytes, 110 * kMiB);
  EXPECT_EQ(report->excess_bytes(), 0U);
  EXPECT_EQ(report->reason, OomReason::kFragmented);
}

TEST_F(OomTest, ConsistentBoundsGiveOneLimit) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  trace_.add(TraceAction::kSegmentAlloc, kOomSegment, 20 * kMiB).alloc(kOomSegment, 20 * kMiB);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->limit.varies);
  EXPECT_EQ(report->limit.at_least_bytes, 100 * kMiB);
}

// A program that searches for its batch size requests too much and catches the error.
TEST_F(OomTest, IgnoresLaterFailuresInVerdict) {
  fail_allocation(30 * kMiB, 5 * kMiB);
  fail_allocation(100 * kGiB, 5 * kMiB);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->entry, 10U);
  EXPECT_EQ(report->failure_count, 2U);
  EXPECT_EQ(report->needed_bytes, 80 * kMiB) << "both first allocations";
  EXPECT_EQ(report->other_needed_bytes, 100 * kGiB + 41 * kMiB);
  EXPECT_EQ(report->excess_bytes(), 0U);
  EXPECT_EQ(report->reason, OomReason::kFragmented);
  EXPECT_FALSE(report->can_compare()) << "no setting completes the second request";
}

TEST_F(OomTest, IgnoresFailuresWithoutASize) {
  fail_allocation(0, 0);
  EXPECT_FALSE(explain());
  fail_allocation(30 * kMiB, kPlentyBytes);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->entry, 11U);
  EXPECT_EQ(report->failure_count, 1U);
  EXPECT_FALSE(report->limit.is_device_limit);
}

// Other processes hold all but `free_bytes` of the device. These values are below the smallest
// capacity that a simulated device accepts.
TEST_F(OomTest, ReplaysUnderALimitBelowTheSmallestDevice) {
  for (const size_t free_bytes : {size_t{0}, size_t{1200000}}) {
    trace_ = TraceBuilder();
    fail_allocation(20 * kMiB, free_bytes);
    const std::optional<OomReport> report = explain();
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->is_reproduced);
    EXPECT_EQ(report->limit.at_least_bytes, free_bytes);
    EXPECT_EQ(report->obtainable_bytes(), free_bytes);
    EXPECT_EQ(report->reason, OomReason::kInUse);
    EXPECT_EQ(report->excess_bytes(), 20 * kMiB - free_bytes);
  }
}

TEST_F(OomTest, ReplaysSettingsUnderTheSameLimit) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_FALSE(fits(*report, ""));
  EXPECT_TRUE(fits(*report, "expandable_segments:True"));
}

TEST_F(OomTest, ExplainsAFailureUnderAGivenLimit) {
  const size_t asked = 30 * kMiB - 100;
  trace_.add(TraceAction::kSegmentAlloc, kOomSegment, 30 * kMiB).alloc(kOomSegment, asked);
  is_limit_given_ = true;
  options_.cap_bytes = 100 * kMiB;
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->entry, 11U);
  EXPECT_FALSE(report->was_recorded);
  EXPECT_EQ(report->requested_bytes, asked);
  EXPECT_EQ(report->rounded_bytes, 30 * kMiB);
  EXPECT_FALSE(report->limit.is_inferred());
  EXPECT_EQ(report->limit.at_least_bytes, 100 * kMiB);
  EXPECT_EQ(report->device_free_bytes, 8 * kGiB - 80 * kMiB);
}

TEST_F(OomTest, ReturnsNothingWithoutAFailure) {
  EXPECT_FALSE(explain());
  is_limit_given_ = true;
  options_.cap_bytes = 90 * kMiB;
  EXPECT_FALSE(explain());
  fail_allocation(30 * kMiB, kPlentyBytes);
  options_.cap_bytes = kGiB;
  EXPECT_FALSE(explain());
}

// The trace contains a failed allocation of 10 MiB although there are sufficient holes.
TEST_F(OomTest, DescribesTheRecordedStateIfTheReplayDoesNotFail) {
  fail_allocation(10 * kMiB, kPlentyBytes);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->entry, 10U);
  EXPECT_EQ(report->rounded_bytes, 10 * kMiB);
  EXPECT_FALSE(report->is_reproduced);
  EXPECT_FALSE(report->can_compare());
  EXPECT_EQ(report->state.free_bytes, 39 * kMiB);
  EXPECT_EQ(report->reason, OomReason::kUnexplained);
}

TEST_F(OomTest, UnsplittableBlockIsNotFragmentation) {
  options_.recorded.max_split_bytes = 20 * kMiB;
  trace_ = TraceBuilder();
  trace_.add(TraceAction::kSegmentAlloc, kBase, 100 * kMiB).alloc(kBase, 10 * kMiB);
  fail_allocation(30 * kMiB, 5 * kMiB);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->state.largest_usable_hole_bytes, 90 * kMiB);
  EXPECT_EQ(report->reason, OomReason::kRounding);
}

TEST_F(OomTest, TooSmallHolesAreFragmentation) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->reason, OomReason::kFragmented);
  EXPECT_EQ(report->live_requested_bytes, 41 * kMiB);
  EXPECT_EQ(report->live.size(), 2U);
  EXPECT_EQ(report->needed_bytes, 80 * kMiB) << "both first allocations";
  EXPECT_EQ(report->excess_bytes(), 0U);
}

TEST_F(OomTest, RequestBeyondLimitNeedsLessMemoryInUse) {
  fail_allocation(70 * kMiB, 5 * kMiB);
  is_limit_given_ = true;
  options_.capacity_bytes = 85 * kMiB;
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->reason, OomReason::kInUse);
  EXPECT_EQ(report->needed_bytes, 111 * kMiB);
  EXPECT_EQ(report->excess_bytes(), 26 * kMiB);
  for (const Trial& trial : report->settings.trials) EXPECT_FALSE(trial.completes());
}

TEST_F(OomTest, ReportsOtherArenasIfOtherStreamHasMemory) {
  trace_.add(TraceAction::kOom, kPlentyBytes, 18 * kMiB, 7);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->reason, OomReason::kOtherArenas);
  EXPECT_EQ(report->state.usable_free_bytes, 0U);
  EXPECT_EQ(report->state.free_bytes, 39 * kMiB);
}

TEST_F(OomTest, BlocksLargerThanRequestsAreRounding) {
  // 39.5 MiB in a segment of 40 MiB, twice: the remainders are not split off.
  TraceBuilder unsplit;
  for (const uint64_t at : {kBase, kBlock2}) {
    unsplit.add(TraceAction::kSegmentAlloc, at, 40 * kMiB).alloc(at, 39 * kMiB + kMiB / 2);
  }
  trace_ = unsplit;
  trace_.add(TraceAction::kOom, kPlentyBytes, 2 * kMiB);
  is_limit_given_ = true;
  options_.cap_bytes = 81 * kMiB;
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->reason, OomReason::kRounding);
}

TEST_F(OomTest, SegmentLargerThanRequestIsRounding) {
  trace_ = TraceBuilder();
  trace_.add(TraceAction::kSegmentAlloc, kBase, 30 * kMiB).alloc(kBase, 30 * kMiB);
  fail_allocation(3 * kMiB / 2, 10 * kMiB);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->segment_bytes, 20 * kMiB);
  EXPECT_EQ(report->obtainable_bytes(), 10 * kMiB);
  EXPECT_EQ(report->reason, OomReason::kRounding);
}

TEST_F(OomTest, StopsWhenCancelled) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  uint32_t poll_count = 0;
  options_.keep_going = [&] { return ++poll_count > 1; };  // only the first poll cancels
  const Allocations allocations = find_allocations(trace_.snapshot(), kTraceDevice);
  const auto report = explain_oom(trace_.snapshot(), allocations, options_);
  EXPECT_TRUE(report.status().is(StatusKind::kTimeout));
  EXPECT_EQ(poll_count, 1U) << "the first replay polls, too";
}

}  // namespace
}  // namespace ashlar
