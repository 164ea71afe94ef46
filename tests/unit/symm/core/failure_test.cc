// SPDX-License-Identifier: Apache-2.0
//
// Tests that a group's failure keeps the first reported reason.
#include "symm/core/failure.h"

#include <gtest/gtest.h>

namespace ashlar::symm {
namespace {

TEST(Failure, HasNoReasonBeforeAReport) {
  const Failure failure;
  EXPECT_FALSE(failure.has_happened());
  EXPECT_TRUE(failure.reason().ok());
}

TEST(Failure, KeepsTheFirstReason) {
  Failure failure;
  failure.report(Status::peer_lost("rank 3 died"));
  failure.report(Status::timeout("rank 1 waited for rank 3"));
  EXPECT_TRUE(failure.has_happened());
  EXPECT_EQ(failure.reason().message(), "rank 3 died");
  EXPECT_EQ(failure.reason().kind(), StatusKind::kPeerLost);
}

}  // namespace
}  // namespace ashlar::symm
