// SPDX-License-Identifier: Apache-2.0
//
// Addresses under other settings: the rule, beside what was unseen in the recorded process.
#include "analysis/replay/address_predictor.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

constexpr uint64_t kTop = uint64_t{1} << 46;  // the end of the first new chunk

class LikelyAddressesTest : public ::testing::Test {
 protected:
  void recorded(size_t mib, uint64_t at) { trace_.act(TraceAction::kSegmentAlloc, at, mib * kMiB); }
  LikelyAddresses addresses() { return LikelyAddresses(trace_.snapshot().device_traces[0]); }

  TraceBuilder trace_;
};

TEST_F(LikelyAddressesTest, OtherSegmentsUseTheRoomThatWasRevealedFromItsMomentOn) {
  recorded(20, kTop - 32 * kMiB);
  recorded(40, kTop + 100 * kMiB);
  LikelyAddresses likely = addresses();
  likely.go_to(0);
  EXPECT_EQ(likely.take(24 * kMiB), kTop - 32 * kMiB);
  likely.go_to(1);
  EXPECT_EQ(likely.take(30 * kMiB), kTop + 100 * kMiB);
  EXPECT_EQ(likely.take(30 * kMiB), kTop + 130 * kMiB);
  EXPECT_EQ(likely.take(30 * kMiB), kTop - 64 * kMiB) << "there is no more room";
}

TEST_F(LikelyAddressesTest, RoomThatWasRevealedStaysWhenItIsEmpty) {
  recorded(20, kTop - 32 * kMiB);
  recorded(40, kTop + 100 * kMiB);
  LikelyAddresses likely = addresses();
  likely.go_to(1);
  const uint64_t first = likely.take(30 * kMiB);
  likely.give_back(first);
  EXPECT_EQ(likely.take(60 * kMiB), first);
}

TEST_F(LikelyAddressesTest, WhatWasTakenElsewhereIsTakenHereByTheRule) {
  recorded(20, kTop - 32 * kMiB);
  recorded(2, kTop - 8 * kMiB);
  LikelyAddresses likely = addresses();
  likely.go_to(0);
  EXPECT_EQ(likely.take(24 * kMiB), kTop - 32 * kMiB);
  likely.go_to(1);
  EXPECT_EQ(likely.take(2 * kMiB), kTop - 4 * kMiB) << "4 MiB were unseen, at another place";
}

TEST_F(LikelyAddressesTest, AGapThatOpensWithinWhatHasMovedOpensThere) {
  recorded(20, kTop - 32 * kMiB);
  recorded(20, kTop - 192 * kMiB);
  recorded(20, kTop - 96 * kMiB);
  LikelyAddresses likely = addresses();
  likely.go_to(0);
  EXPECT_EQ(likely.take(60 * kMiB), kTop - 64 * kMiB) << "32 MiB of what is closed later";
  likely.go_to(1);
  EXPECT_EQ(likely.take(20 * kMiB), kTop - 224 * kMiB) << "128 MiB lie above";
  likely.go_to(2);
  EXPECT_EQ(likely.take(20 * kMiB), kTop - 128 * kMiB) << "32 MiB lower, like all of it";
}

TEST_F(LikelyAddressesTest, WithoutSegmentsThereIsTheRuleAlone) {
  LikelyAddresses likely = addresses();
  const uint64_t first = likely.take(20 * kMiB);
  EXPECT_NE(first, 0U);
  EXPECT_EQ(likely.take(20 * kMiB), first - 32 * kMiB);
}

}  // namespace
}  // namespace ashlar
