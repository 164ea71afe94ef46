// SPDX-License-Identifier: Apache-2.0
//
// Waiting as a trace says.
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

TEST(RecordedTimeTest, GoesFromActToActAsTheTraceDoes) {
  RecordedTime time;
  time.wait_for(at(5'000'000));
  EXPECT_EQ(time.clock().now_ns(), 0);
  time.wait_for(at(5'000'250));
  EXPECT_EQ(time.clock().now_ns(), 250'000);
  time.clock().sleep_ns(100'000);  // what happened in between is part of it
  time.wait_for(at(5'000'300));
  EXPECT_EQ(time.clock().now_ns(), 350'000);
  time.wait_for(at(5'001'000));
  EXPECT_EQ(time.clock().now_ns(), 1'000'000);
}

TEST(RecordedTimeTest, TimesThatMakeNoSenseAreNotWaitedFor) {
  RecordedTime time;
  time.wait_for(at(1000));
  time.wait_for(at(0));
  time.wait_for(at(INT64_MIN));
  time.wait_for(at(INT64_MAX));
  EXPECT_EQ(time.clock().now_ns(), 0);
}

TEST(RecordedTimeTest, WithoutTimesAnActTakesTenMicroseconds) {
  RecordedTime time;
  TraceEntry untimed;
  untimed.has_time = false;
  for (int i = 0; i < 3; ++i) time.wait_for(untimed);
  EXPECT_EQ(time.clock().now_ns(), 30'000);
}

}  // namespace
}  // namespace ashlar
