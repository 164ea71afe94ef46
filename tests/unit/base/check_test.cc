// SPDX-License-Identifier: Apache-2.0
//
// Tests of ASHLAR_CHECK and the failure handler.
#include "base/check.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace ashlar {
namespace {

TEST(CheckDeathTest, CallsTheHandlerAndAbortsOnViolation) {
  EXPECT_DEATH(
      {
        set_failure_handler([](std::string_view description) {
          std::fprintf(stderr, "failed: %s\n", std::string(description).c_str());
        });
        ASHLAR_CHECK(1 + 1 == 3);
      },
      "failed: broken invariant: 1 \\+ 1 == 3 \\(.*check_test.cc");
}

TEST(CheckTest, DoesNothingWhenConditionHolds) {
  int evaluated = 0;
  ASHLAR_CHECK(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

}  // namespace
}  // namespace ashlar
