// SPDX-License-Identifier: Apache-2.0
//
// Tests of Deadline that need no waiting.
#include "ashlar/deadline.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, NeverDoesNotPass) {
  EXPECT_TRUE(Deadline::never().is_never());
  EXPECT_FALSE(Deadline::never().has_passed());
  EXPECT_EQ(Deadline::never().poll_timeout_ms(), -1);
}

TEST(Deadline, TreatsZeroTimeoutAsInfinite) { EXPECT_TRUE(Deadline::of_timeout(0ms).is_never()); }

TEST(Deadline, SaturatesDistantDeadlines) {
  EXPECT_TRUE(Deadline::after(std::chrono::nanoseconds::max()).is_never());
  EXPECT_TRUE(Deadline::after(std::chrono::milliseconds::max()).is_never());
  EXPECT_TRUE(Deadline::of_timeout(std::chrono::milliseconds::max()).is_never());
  EXPECT_TRUE(Deadline::of_timeout(std::chrono::hours(24 * 365 * 300)).is_never());
  EXPECT_FALSE(Deadline::of_timeout(std::chrono::hours(24 * 365 * 99)).is_never());
}

TEST(Deadline, HasNoTimeLeftAfterPassing) {
  const Deadline passed = Deadline::after(-1s);
  EXPECT_TRUE(passed.has_passed());
  EXPECT_EQ(passed.left(), 0ns);
  EXPECT_EQ(passed.poll_timeout_ms(), 0);
  EXPECT_TRUE(Deadline::after(std::chrono::milliseconds::min()).has_passed());
}

TEST(Deadline, HasTimeLeftBeforePassing) {
  const Deadline ahead = Deadline::after(1h);
  EXPECT_FALSE(ahead.has_passed());
  EXPECT_GT(ahead.left(), 59min);
  EXPECT_LE(ahead.left(), 1h);
}

}  // namespace
}  // namespace ashlar
