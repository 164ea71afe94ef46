// SPDX-License-Identifier: Apache-2.0
//
// Tests the alternatives that a report proposes.
#include "analysis/replay/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

using ::testing::Contains;
using ::testing::Not;

// Six requests, each too large for the hole that the previous request leaves.
class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    uint64_t at = kBase;
    for (size_t i = 0; i < 6; ++i) {
      const size_t bytes = (12 + 4 * i) * kMiB;
      trace_.add(TraceAction::kSegmentAlloc, at, bytes).alloc(at, bytes).free(at, bytes);
      at += bytes;
    }
    options_.recorded.engine = EngineKind::kClassic;
    options_.recorded.pytorch_compatible = true;
    options_.capacity_bytes = 8 * kGiB;
  }

  Report run_report() {
    options_.allocator = options_.recorded;
    const DeviceRecording run(Recording::create("run", trace_.snapshot()), options_.device);
    Result<Report> report = make_report(run, options_);
    EXPECT_TRUE(report.ok()) << report.status().to_string();
    return report.ok() ? *std::move(report) : Report();
  }

  std::vector<std::string> confs() {
    std::vector<std::string> all;
    for (const Alternative& other : run_report().alternatives) all.push_back(other.setting.conf);
    return all;
  }

  TraceBuilder trace_;
  ReplayOptions options_;
};

TEST_F(ReportTest, ReplaysAlternativesUnderTheRecordedLimit) {
  EXPECT_EQ(run_report().replayed->stats.reserved_bytes.all.peak, 132 * kMiB);
  options_.recorded.memory_fraction = 0.005;  // 40.96 MiB
  const Report report = run_report();
  EXPECT_LE(report.replayed->stats.reserved_bytes.all.peak, 40 * kMiB);
  ASSERT_FALSE(report.alternatives.empty());
  for (const Alternative& other : report.alternatives) {
    EXPECT_LE(other.peak_reserved_bytes, 40 * kMiB) << other.setting.conf;
  }
}

TEST_F(ReportTest, SkipsAlternativesEqualToTheRecordedSetting) {
  EXPECT_THAT(confs(), Contains("expandable_segments:True"));
  options_.recorded.expandable_segments = true;
  options_.recorded.unlock_during_device_allocate = true;  // does not affect placement
  EXPECT_THAT(confs(), Not(Contains("expandable_segments:True")));
}

TEST_F(ReportTest, TriesThePagedEngineForEveryRun) {
  const auto texts = [&] {
    std::vector<std::string> all;
    for (const Alternative& other : run_report().alternatives) {
      all.push_back(format_setting(other.setting, RecordedAllocator::kAshlar));
    }
    return all;
  };
  EXPECT_THAT(texts(), Contains("engine:paged"));
  options_.recorded = {};
  options_.recorded.engine = EngineKind::kPaged;
  EXPECT_THAT(texts(), testing::UnorderedElementsAre("engine:paged,policy:lean",
                                                     "engine:classic,expandable_segments:True"));
}

}  // namespace
}  // namespace ashlar
