// SPDX-License-Identifier: Apache-2.0
//
// Tests that the demo serves the same requests with every engine, and that each engine reserves
// less than the previous engine.
#include "cli/demo/demo_engines.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

class DemoEngines : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::vector<EngineRun>> runs = run_with_engines({.step_count = 6});
    ASSERT_TRUE(runs.ok()) << runs.status().to_string();
    runs_ = *std::move(runs);
    ASSERT_EQ(runs_.size(), 3U);
  }
  static int64_t reserved(const EngineRun& run) { return run.stats.reserved_bytes.all.peak; }

  std::vector<EngineRun> runs_;
};

TEST_F(DemoEngines, AllEnginesServeTheSameRequests) {
  const std::vector<TimelinePoint>& first = runs_.front().timeline.points;
  for (const EngineRun& run : runs_) {
    ASSERT_EQ(run.timeline.points.size(), first.size()) << run.name;
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(run.timeline.points[i].live_bytes, first[i].live_bytes) << run.name << ", " << i;
    }
    EXPECT_EQ(run.timeline.points.back().live_bytes, 0U);
    EXPECT_TRUE(run.returned_all_memory) << run.name;
  }
}

TEST_F(DemoEngines, ReservedIsAtLeastLive) {
  for (const EngineRun& run : runs_) {
    for (const TimelinePoint& point : run.timeline.points) {
      ASSERT_GE(point.reserved_bytes, point.live_bytes) << run.name;
    }
  }
}

TEST_F(DemoEngines, EachEngineReservesLessThanThePrevious) {
  EXPECT_LT(reserved(runs_[1]), reserved(runs_[0]));
  EXPECT_LT(reserved(runs_[2]), reserved(runs_[1]));
  for (const EngineRun& run : runs_) EXPECT_GT(run.driver.total_ns, 0) << run.name;
}

}  // namespace
}  // namespace ashlar
