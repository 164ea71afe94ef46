// SPDX-License-Identifier: Apache-2.0
//
// Tests of the sizes of new extents under each policy, and of which extents may be reused.
#include "engine/paged/pool/extent_sizing.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/units.h"

namespace ashlar::paged {
namespace {

constexpr size_t kGranule = 2 * kMiB;

TEST(ExtentSizingTest, SmallBlocksGetSmallExtents) {
  const ExtentSizing sizing(PagedPolicy::kBalanced, kGranule, false);
  EXPECT_EQ(sizing.extent_sizes({512, true, 16 * kGiB, 0}, 4 * kMiB),
            (std::vector<size_t>{2 * kMiB, 2 * kMiB}));
}

TEST(ExtentSizingTest, ExtentsAreAShareOfTheHeldMemory) {
  const GrowthRequest request{64 * kMiB, false, 16 * kGiB - 64 * kMiB, 0};
  const auto first_size = [&](PagedPolicy policy) {
    return ExtentSizing(policy, kGranule, false).extent_sizes(request, 512 * kMiB).front();
  };
  EXPECT_EQ(first_size(PagedPolicy::kFast), 64 * kMiB) << "the largest extent";
  EXPECT_EQ(first_size(PagedPolicy::kBalanced), 52 * kMiB) << "a 320th, rounded up";
  EXPECT_EQ(first_size(PagedPolicy::kLean), 16 * kMiB) << "a 1024th";
}

TEST(ExtentSizingTest, BalancedFollowsTheTypicalBlockWithinItsBounds) {
  const ExtentSizing sizing(PagedPolicy::kBalanced, kGranule, false);
  const size_t held = 3200 * kMiB - 64 * kMiB;
  const auto first_size = [&](size_t typical_bytes) {
    return sizing.extent_sizes({64 * kMiB, false, held, typical_bytes}, kGiB).front();
  };
  EXPECT_EQ(first_size(0), 10 * kMiB);
  EXPECT_EQ(first_size(112 * kMiB), 14 * kMiB);
  EXPECT_EQ(first_size(kGiB), 20 * kMiB);
}

TEST(ExtentSizingTest, SizesAddUpToTheNewMemory) {
  const ExtentSizing sizing(PagedPolicy::kBalanced, kGranule, false);
  for (size_t bytes = kGranule; bytes < 200 * kMiB; bytes += 6 * kMiB) {
    const GrowthRequest request{bytes, false, kGiB, 0};
    const std::vector<size_t> sizes = sizing.extent_sizes(request, bytes);
    EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), size_t{0}), bytes);
    EXPECT_EQ(sizes.size(), sizing.extent_count(request, bytes));
  }
  EXPECT_TRUE(sizing.extent_sizes({kMiB, false, 0, 0}, 0).empty());
}

TEST(ExtentSizingTest, LargeGranulesBoundTheNumberOfExtents) {
  const ExtentSizing sizing(PagedPolicy::kBalanced, kGiB, false);
  const size_t held = 32 * 1024 * kGiB;
  const GrowthRequest request{1024 * kGiB, false, held, 0};
  EXPECT_EQ(sizing.extent_sizes(request, 1024 * kGiB).front(), 8 * kGiB);
}

TEST(ExtentSizingTest, ShareableExtentsHaveOneSize) {
  const ExtentSizing sizing(PagedPolicy::kLean, kGranule, true);
  const size_t step = sizing.growth_step_bytes(false);
  for (const size_t bytes : sizing.extent_sizes({kGiB, false, 64 * kGiB, 0}, 8 * step)) {
    EXPECT_EQ(bytes, step);
  }
  EXPECT_TRUE(sizing.can_reuse(step, false));
  EXPECT_FALSE(sizing.can_reuse(2 * step, false));
}

TEST(ExtentSizingTest, SmallRequestsReuseOnlySmallExtents) {
  const ExtentSizing sizing(PagedPolicy::kBalanced, kGranule, false);
  EXPECT_TRUE(sizing.can_reuse(2 * kMiB, true));
  EXPECT_FALSE(sizing.can_reuse(4 * kMiB, true));
  EXPECT_TRUE(sizing.can_reuse(64 * kMiB, false));
}

}  // namespace
}  // namespace ashlar::paged
