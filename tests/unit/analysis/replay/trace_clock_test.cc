// SPDX-License-Identifier: Apache-2.0
//
// Tests the clock that follows the times of a trace.
#include "analysis/replay/trace_clock.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TraceEntry at(int64_t time_us) {
  TraceEntry entry;
  entry.has_time = true;
  entry.time_us = time_us;
  return entry;
}

TEST(TraceClockTest, FollowsTheTimesOfTheTrace) {
  TraceClock clock;
  clock.advance_to(at(5'000'000));
  EXPECT_EQ(clock.clock().now_ns(), 0);
  clock.advance_to(at(5'000'250));
  EXPECT_EQ(clock.clock().now_ns(), 250'000);
  clock.clock().sleep_ns(100'000);  // the sleep counts towards the next entry
  clock.advance_to(at(5'000'300));
  EXPECT_EQ(clock.clock().now_ns(), 350'000);
  clock.advance_to(at(5'001'000));
  EXPECT_EQ(clock.clock().now_ns(), 1'000'000);
}

TEST(TraceClockTest, IgnoresImplausibleTimes) {
  TraceClock clock;
  clock.advance_to(at(1000));
  clock.advance_to(at(0));
  clock.advance_to(at(INT64_MIN));
  clock.advance_to(at(INT64_MAX));
  EXPECT_EQ(clock.clock().now_ns(), 0);
}

TEST(TraceClockTest, AdvancesTenMicrosecondsWithoutTimes) {
  TraceClock clock;
  TraceEntry untimed;
  untimed.has_time = false;
  for (int i = 0; i < 3; ++i) clock.advance_to(untimed);
  EXPECT_EQ(clock.clock().now_ns(), 30'000);
}

}  // namespace
}  // namespace ashlar
