// SPDX-License-Identifier: Apache-2.0
//
// The timeouts of joining a team's group.
#include "shmem/teams.h"

#include <gtest/gtest.h>

namespace ashlar::shmem {
namespace {

using std::chrono::seconds;

// With a constant timeout, an attempt that takes longer would be repeated forever.
TEST(JoinTimeouts, GrowUpToALimit) {
  JoinTimeouts timeouts;
  for (const int expected : {5, 10, 20, 40, 40, 40}) {
    EXPECT_EQ(timeouts.next(), seconds(expected));
  }
}

}  // namespace
}  // namespace ashlar::shmem
