// SPDX-License-Identifier: Apache-2.0
//
// Tests the sentences about explained failures.
#include "analysis/report_json/oom_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A request of 40 MiB that failed while one allocation of 100 MiB was in use, under a limit of the
// device of 210 MiB.
class OomVerdictTest : public testing::Test {
 protected:
  OomVerdictTest() {
    TraceBuilder trace;
    trace.add(TraceAction::kSegmentAlloc, kBase, 200 * kMiB).alloc(kBase, 100 * kMiB);
    recording_ = Recording::create("run.pickle", trace.snapshot());
    report_.was_recorded = true;
    report_.rounded_bytes = report_.segment_bytes = 40 * kMiB;
    report_.device_free_bytes = 10 * kMiB;
    report_.limit = {.at_least_bytes = 210 * kMiB,
                     .below_bytes = 240 * kMiB,
                     .replayed_bytes = 210 * kMiB + 1,
                     .is_device_limit = true};
    report_.state.reserved_bytes = 200 * kMiB;
    report_.state.free_bytes = report_.state.usable_free_bytes = 100 * kMiB;
    report_.state.largest_hole_bytes = report_.state.largest_usable_hole_bytes = 25 * kMiB;
    report_.live = {0};
    report_.live_requested_bytes = 100 * kMiB;
    report_.needed_bytes = 140 * kMiB;
    report_.reason = OomReason::kFragmented;
    report_.settings.trials.resize(1);
  }

  // Returns all remedies as one text.
  std::string remedies_text() const {
    std::string text;
    for (const std::string& each : remedies({recording_, kTraceDevice}, report_)) text += each;
    return text;
  }

  std::shared_ptr<const Recording> recording_;
  OomReport report_;
};

TEST_F(OomVerdictTest, StatesThatLimitChanged) {
  EXPECT_THAT(verdict_text(report_), Not(HasSubstr("limit changed")));
  report_.limit.varies = true;
  report_.is_reproduced = true;
  EXPECT_THAT(verdict_text(report_),
              AllOf(HasSubstr("Fragmentation"), HasSubstr("The memory limit changed during")));
  EXPECT_THAT(remedies_text(), HasSubstr("cannot be compared: the memory limit changed"));
}

TEST_F(OomVerdictTest, StatesThatLaterRequestExceedsLimit) {
  report_.is_reproduced = true;
  report_.other_needed_bytes = 100 * kGiB;
  EXPECT_THAT(remedies_text(), HasSubstr("another request failed that needs 100.00 GiB in total"));
}

TEST_F(OomVerdictTest, NamesTooLargeSegment) {
  report_.reason = OomReason::kRounding;
  report_.rounded_bytes = 3 * kMiB / 2;
  report_.segment_bytes = 20 * kMiB;
  report_.state.largest_usable_hole_bytes = 0;
  EXPECT_EQ(verdict_text(report_),
            "Full because of rounding: 10.00 MiB could still be obtained, but for the request of "
            "1.50 MiB, the allocator obtains a segment of 20.00 MiB.");
}

TEST_F(OomVerdictTest, NamesBlockThatIsLargeEnough) {
  report_.state.largest_usable_hole_bytes = 90 * kMiB;
  report_.reason = OomReason::kRounding;
  EXPECT_THAT(verdict_text(report_), AllOf(HasSubstr("may not be split"), HasSubstr("90.00 MiB")));
  report_.reason = OomReason::kUnexplained;
  EXPECT_THAT(verdict_text(report_), AllOf(HasSubstr("Not explained"), HasSubstr("90.00 MiB")));
  EXPECT_THAT(remedies_text(), Not(HasSubstr("would have fit")));
}

TEST_F(OomVerdictTest, NamesFreeCacheAndObtainableMemory) {
  report_.state.usable_free_bytes = 35 * kMiB;
  EXPECT_THAT(verdict_text(report_), HasSubstr("35.00 MiB is free in the cache and 10.00 MiB on"));
  report_.limit.is_device_limit = false;
  EXPECT_THAT(verdict_text(report_), HasSubstr("10.00 MiB below the limit,"));
}

TEST_F(OomVerdictTest, SuggestsOtherProcessesIfDeviceLimitIsSmall) {
  report_.reason = OomReason::kInUse;
  report_.rounded_bytes = report_.segment_bytes = 300 * kMiB;
  report_.needed_bytes = 400 * kMiB;
  EXPECT_THAT(verdict_text(report_),
              AllOf(HasSubstr("Other processes hold the GPU's memory"), Not(HasSubstr("shape"))));
  EXPECT_THAT(remedies({recording_, kTraceDevice}, report_),
              ElementsAre("No setting and no engine helps. Request at least 90.00 MiB less."));
  report_.limit.is_device_limit = false;
  EXPECT_THAT(verdict_text(report_), HasSubstr("Check the shape that was requested."));
}

TEST_F(OomVerdictTest, NeverAsksLinesToSaveMoreThanTheyHold) {
  report_.reason = OomReason::kInUse;
  report_.needed_bytes = 300 * kMiB;
  EXPECT_THAT(remedies_text(),
              HasSubstr("Use at least 90.00 MiB less at the lines that hold the most."));
  report_.needed_bytes = 311 * kMiB;
  EXPECT_THAT(remedies_text(), testing::EndsWith("Use at least 101.00 MiB less."));
}

}  // namespace
}  // namespace ashlar
