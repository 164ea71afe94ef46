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
constexpr uint64_t kBlock3 = kBase + 200 * kMiB;
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
    options_.tuning.recorded.engine = EngineKind::kClassic;
    options_.tuning.recorded.pytorch_compatible = true;
    options_.tuning.capacity_bytes = 8 * kGiB;
  }

  void fail_allocation(size_t bytes, size_t device_free_bytes) {
    trace_.add(TraceAction::kOom, device_free_bytes, bytes).from(5);
  }

  std::optional<OomReport> explain() {
    const Allocations allocations = find_allocations(trace_.snapshot(), kTraceDevice);
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
  OomOptions options_;
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
  ASSERT_TRUE(report->state);
  EXPECT_EQ(report->state->reserved_bytes, 80 * kMiB);
  EXPECT_EQ(report->state->allocated_bytes, 41 * kMiB);
  EXPECT_EQ(report->state->free_bytes, 39 * kMiB);
  EXPECT_EQ(report->state->usable_free_bytes, 39 * kMiB);
  EXPECT_EQ(report->state->largest_usable_hole_bytes, 20 * kMiB);
}

TEST_F(OomTest, ListsOccupyingBlocksWithStackAndAge) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report && report->state);
  ASSERT_EQ(report->state->occupied_segments.size(), 2U);
  const OccupiedSegment& most = report->state->occupied_segments[0];
  EXPECT_EQ(most.total_bytes, 40 * kMiB);
  EXPECT_EQ(most.free_bytes, 20 * kMiB);
  EXPECT_TRUE(most.is_usable);
  ASSERT_EQ(most.largest_blocks.size(), 1U);
  EXPECT_EQ(most.largest_blocks[0].bytes, 20 * kMiB);
  EXPECT_EQ(most.largest_blocks[0].stack, StackId(3));
  EXPECT_EQ(most.largest_blocks[0].alloc_entry, 8U);
  EXPECT_EQ(most.largest_blocks[0].age_us, 2);
  EXPECT_EQ(report->state->occupied_segments[1].largest_blocks[0].stack, StackId(4));
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
  ASSERT_TRUE(report->state);
  EXPECT_EQ(report->state->free_bytes, 39 * kMiB);
  EXPECT_EQ(report->limit.below_bytes, 110 * kMiB);
}

TEST_F(OomTest, UsesTheLimitAtTheTimeOfTheFailure) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  trace_.add(TraceAction::kSegmentAlloc, kBlock3, 100 * kMiB).alloc(kBlock3, 100 * kMiB);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->limit.at_least_bytes, 80 * kMiB);
  EXPECT_EQ(report->limit.below_bytes, 110 * kMiB);
  EXPECT_EQ(report->entry, 10U);
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
  trace_.add(TraceAction::kSegmentAlloc, kBlock3, 30 * kMiB).alloc(kBlock3, asked);
  options_.is_limit_given = true;
  options_.tuning.cap_bytes = 100 * kMiB;
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
  options_.is_limit_given = true;
  options_.tuning.cap_bytes = 90 * kMiB;
  EXPECT_FALSE(explain());
  fail_allocation(30 * kMiB, kPlentyBytes);
  options_.tuning.cap_bytes = kGiB;
  EXPECT_FALSE(explain());
}

// The trace contains a failed allocation of 10 MiB although there are sufficient holes.
TEST_F(OomTest, OmitsTheStateIfTheReplayDoesNotFail) {
  fail_allocation(10 * kMiB, kPlentyBytes);
  const std::optional<OomReport> report = explain();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->entry, 10U);
  EXPECT_EQ(report->rounded_bytes, 10 * kMiB);
  EXPECT_FALSE(report->state);
}

TEST_F(OomTest, StopsWhenCancelled) {
  fail_allocation(30 * kMiB, kPlentyBytes);
  uint32_t poll_count = 0;
  options_.tuning.keep_going = [&] { return ++poll_count > 1; };  // only the first poll cancels
  const Allocations allocations = find_allocations(trace_.snapshot(), kTraceDevice);
  const auto report = explain_oom(trace_.snapshot(), allocations, options_);
  EXPECT_TRUE(report.status().is(StatusKind::kTimeout));
  EXPECT_EQ(poll_count, 1U) << "the first replay polls, too";
}

}  // namespace
}  // namespace ashlar
