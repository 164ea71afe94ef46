// SPDX-License-Identifier: Apache-2.0
//
// Tests the packing checker, and packings of hand-written and random lifetimes.
#include "analysis/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"

namespace ashlar {
namespace {

// Returns the peak of live bytes, which is a lower bound on the height of any packing.
uint64_t bound_of(const std::vector<Lifetime>& lifetimes) {
  std::map<uint32_t, uint64_t> changes;  // keyed by time; values modulo 2^64
  for (const Lifetime& each : lifetimes) {
    changes[each.begin] += each.bytes;
    changes[each.end] -= each.bytes;
  }
  uint64_t now = 0;
  uint64_t bound = 0;
  for (const auto& [time, change] : changes) bound = std::max(bound, now += change);
  return bound;
}

// Returns whether no two allocations that are live at the same time overlap in addresses. Compares
// all pairs, as a reference for the checker.
bool overlaps_nowhere(const std::vector<Lifetime>& lifetimes, const Packing& packing) {
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool in_time =
          lifetimes[i].begin < lifetimes[j].end && lifetimes[j].begin < lifetimes[i].end;
      const bool in_space = packing.addresses[i] < packing.addresses[j] + lifetimes[j].bytes &&
                            packing.addresses[j] < packing.addresses[i] + lifetimes[i].bytes;
      if (in_time && in_space) return false;
    }
  }
  return true;
}

struct DrawLimits {
  uint32_t count = 0;
  uint32_t longest = 0;
  uint64_t largest_bytes = 0;
};

std::vector<Lifetime> draw_lifetimes(Random& random, const DrawLimits& limits) {
  std::vector<Lifetime> lifetimes;
  for (uint32_t i = 0; i < limits.count; ++i) {
    const auto begin = static_cast<uint32_t>(random.below(limits.count));
    const auto length = static_cast<uint32_t>(1 + random.below(limits.longest));
    lifetimes.push_back({begin, begin + length, 1 + random.below(limits.largest_bytes)});
  }
  return lifetimes;
}

TEST(PackingTest, CheckerRejectsOverlaps) {
  const std::vector<Lifetime> lifetimes = {{0, 2, 10}, {1, 3, 10}};
  EXPECT_TRUE(is_valid_packing(lifetimes, {.addresses = {0, 10}, .height_bytes = 20}));
  EXPECT_FALSE(is_valid_packing(lifetimes, {.addresses = {0, 9}, .height_bytes = 19}));
  EXPECT_FALSE(is_valid_packing(lifetimes, {.addresses = {9, 0}, .height_bytes = 19}));
  EXPECT_FALSE(is_valid_packing(lifetimes, {.addresses = {5, 5}, .height_bytes = 15}));
  EXPECT_FALSE(is_valid_packing(lifetimes, {.addresses = {0, 10}, .height_bytes = 19}))
      << "wrong height";
  EXPECT_FALSE(is_valid_packing(lifetimes, {.addresses = {0}, .height_bytes = 10}))
      << "one has no address";
}

TEST(PackingTest, CheckerAcceptsAdjacentRanges) {
  EXPECT_TRUE(
      is_valid_packing({{0, 2, 10}, {2, 3, 10}}, {.addresses = {0, 0}, .height_bytes = 10}));
}

TEST(PackingTest, CheckerAgreesWithPairwiseComparison) {
  Random random(7);
  for (int run = 0; run < 2000; ++run) {
    const std::vector<Lifetime> lifetimes =
        draw_lifetimes(random, {.count = 4, .longest = 3, .largest_bytes = 3});
    Packing packing;
    for (const Lifetime& each : lifetimes) {
      packing.addresses.push_back(random.below(6));
      packing.height_bytes = std::max(packing.height_bytes, packing.addresses.back() + each.bytes);
    }
    ASSERT_EQ(is_valid_packing(lifetimes, packing), overlaps_nowhere(lifetimes, packing)) << run;
  }
}

TEST(PackingTest, PacksNothingIntoZeroBytes) {
  const Packing packing = pack({});
  EXPECT_EQ(packing.height_bytes, 0U);
  EXPECT_TRUE(packing.addresses.empty());
}

TEST(PackingTest, SharesAddressesOfDisjointLifetimes) {
  const Packing packing = pack({{0, 1, 10}, {1, 2, 10}, {2, 3, 10}});
  EXPECT_EQ(packing.height_bytes, 10U);
}

TEST(PackingTest, UsesHoles) {
  // The last allocation fits into the hole that the second allocation leaves.
  const std::vector<Lifetime> lifetimes = {{0, 9, 30}, {0, 3, 20}, {0, 9, 40}, {3, 9, 20}};
  const Packing packing = pack(lifetimes);
  EXPECT_TRUE(is_valid_packing(lifetimes, packing));
  EXPECT_EQ(packing.height_bytes, 90U);
  EXPECT_EQ(packing.in_gaps_count, 4U);
}

TEST(PackingTest, PacksRandomLifetimesCloseToTheBound) {
  Random random(1);
  for (int run = 0; run < 300; ++run) {
    const DrawLimits limits = {.count = static_cast<uint32_t>(1 + random.below(60)),
                               .longest = static_cast<uint32_t>(1 + random.below(40)),
                               .largest_bytes = 1 + random.below(1000)};
    const std::vector<Lifetime> lifetimes = draw_lifetimes(random, limits);
    const uint64_t bound = bound_of(lifetimes);
    const Packing packing = pack(lifetimes, {.goal_bytes = bound});
    ASSERT_TRUE(is_valid_packing(lifetimes, packing)) << "run " << run;
    ASSERT_TRUE(overlaps_nowhere(lifetimes, packing)) << "run " << run;
    ASSERT_GE(packing.height_bytes, bound) << "run " << run;
    ASSERT_LE(packing.height_bytes, bound * 3 / 2) << "run " << run;
  }
}

TEST(PackingTest, StaysValidWhenTheBudgetIsExhausted) {
  Random random(2);
  const std::vector<Lifetime> lifetimes =
      draw_lifetimes(random, {.count = 3000, .longest = 200, .largest_bytes = 5000});
  for (uint64_t work_limit : {0U, 1U, 1000U, 50'000U}) {
    const Packing packing = pack(lifetimes, {.work_limit = work_limit});
    EXPECT_TRUE(is_valid_packing(lifetimes, packing)) << work_limit;
    EXPECT_LT(packing.in_gaps_count, lifetimes.size()) << work_limit;
  }
}

TEST(PackingTest, IsNeverWorseWithMoreWork) {
  Random random(3);
  const std::vector<Lifetime> lifetimes =
      draw_lifetimes(random, {.count = 500, .longest = 100, .largest_bytes = 5000});
  const Packing unoptimized = pack(lifetimes, {.work_limit = 0});
  const Packing packed = pack(lifetimes);
  EXPECT_LT(packed.height_bytes, unoptimized.height_bytes);
  EXPECT_EQ(packed.in_gaps_count, lifetimes.size());
  EXPECT_GT(packed.attempt_count, 1U);
}

TEST(PackingTest, PutsManySmallAllocationsInASmallRegion) {
  Random random(4);
  const std::vector<Lifetime> large =
      draw_lifetimes(random, {.count = 500, .longest = 5000, .largest_bytes = 50'000'000});
  const std::vector<Lifetime> small =
      draw_lifetimes(random, {.count = 20'000, .longest = 50, .largest_bytes = 700});
  std::vector<Lifetime> lifetimes = small;
  lifetimes.insert(lifetimes.end(), large.begin(), large.end());
  const Packing packing = pack(lifetimes);
  EXPECT_TRUE(is_valid_packing(lifetimes, packing));
  EXPECT_LT(packing.in_gaps_count, size_t{10'000});
  EXPECT_LE(packing.height_bytes, pack(large).height_bytes + bound_of(small) * 5 / 4);
}

TEST(PackingTest, IsDeterministic) {
  Random random(5);
  const std::vector<Lifetime> lifetimes =
      draw_lifetimes(random, {.count = 400, .longest = 100, .largest_bytes = 5000});
  EXPECT_EQ(pack(lifetimes).addresses, pack(lifetimes).addresses);
}

TEST(PackingTest, EndsEarlyWhenCancelled) {
  const std::vector<Lifetime> lifetimes(10, Lifetime{.begin = 0, .end = 1, .bytes = 512});
  const Packing packing = pack(lifetimes, {.keep_going = [] { return false; }});
  EXPECT_EQ(packing.attempt_count, 1U);
  EXPECT_EQ(packing.in_gaps_count, 0U);
  EXPECT_TRUE(is_valid_packing(lifetimes, packing));
}

}  // namespace
}  // namespace ashlar
