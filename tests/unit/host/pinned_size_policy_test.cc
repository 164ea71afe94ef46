// SPDX-License-Identifier: Apache-2.0
//
// Tests of block sizes: bounds on waste, and PyTorch's powers of two.
#include "host/pinned_size_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "base/units.h"

namespace ashlar {
namespace {

AllocatorOptions pytorch_options() {
  AllocatorOptions options;
  options.pytorch_compatible = true;
  return options;
}

TEST(PinnedSizePolicyTest, NewBlocksWasteLessThanAnEighthOrAPage) {
  const PinnedSizePolicy sizes{AllocatorOptions{}};
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const size_t bytes = 1 + random.next() % (size_t{1} << (1 + random.below(59)));
    const PinnedFit fit = sizes.fit(bytes);
    ASSERT_GE(fit.block_bytes, bytes);
    ASSERT_LT(fit.block_bytes - bytes, std::max(bytes / 8 + 1, 4 * kKiB)) << bytes;
    ASSERT_GE(fit.max_bytes, fit.block_bytes) << bytes;
    ASSERT_LE(fit.max_bytes - bytes, std::max(bytes / 4, 4 * kKiB)) << bytes;
    ASSERT_EQ(sizes.fit(fit.block_bytes).block_bytes, fit.block_bytes) << "rounding is idempotent";
  }
}

TEST(PinnedSizePolicyTest, RoundsLargeRequestsByAnEighth) {
  const PinnedSizePolicy sizes{AllocatorOptions{}};
  const size_t bytes = 20 * kGiB + 410 * kMiB;
  EXPECT_EQ(sizes.fit(bytes).block_bytes, 22 * kGiB);
  EXPECT_EQ(PinnedSizePolicy(pytorch_options()).fit(bytes).block_bytes, 32 * kGiB);
}

TEST(PinnedSizePolicyTest, SizeClassesPartitionAllSizes) {
  for (const AllocatorOptions& options : {AllocatorOptions{}, pytorch_options()}) {
    const PinnedSizePolicy sizes(options);
    for (size_t index = 0; index < sizes.class_count(); ++index) {
      const size_t largest = sizes.class_bytes(index);
      if (largest > 2 * PinnedSizePolicy::kRequestLimitBytes) break;
      ASSERT_EQ(sizes.class_of(largest), index);
      if (largest == 2 * PinnedSizePolicy::kRequestLimitBytes) break;
      ASSERT_EQ(sizes.class_of(largest + 1), index + 1);
    }
    EXPECT_EQ(sizes.class_of(1), 0U);
    EXPECT_LT(sizes.class_of(2 * PinnedSizePolicy::kRequestLimitBytes), sizes.class_count());
  }
}

TEST(PinnedSizePolicyTest, PyTorchRoundsToPowersOfTwo) {
  const PinnedSizePolicy sizes(pytorch_options());
  for (const size_t bytes : {size_t{1}, size_t{2}, size_t{3}, size_t{513}, 5 * kMiB, 8 * kMiB}) {
    EXPECT_EQ(sizes.fit(bytes).block_bytes, std::bit_ceil(bytes));
    EXPECT_EQ(sizes.fit(bytes).max_bytes, std::bit_ceil(bytes)) << "no other bucket is searched";
  }
}

TEST(PinnedSizePolicyTest, PyTorchRoundsNothingAboveEitherThreshold) {
  AllocatorOptions options = pytorch_options();
  options.pinned.max_round_bytes = 5 * kMiB;
  EXPECT_EQ(PinnedSizePolicy(options).fit(5 * kMiB).block_bytes, 8 * kMiB);
  EXPECT_EQ(PinnedSizePolicy(options).fit(5 * kMiB + 1).block_bytes, 5 * kMiB + 1);
  options.pinned = {};
  options.pinned.max_cached_bytes = 5 * kMiB;
  EXPECT_EQ(PinnedSizePolicy(options).fit(5 * kMiB).block_bytes, 8 * kMiB);
  EXPECT_EQ(PinnedSizePolicy(options).fit(5 * kMiB + 1).block_bytes, 5 * kMiB + 1);
}

TEST(PinnedSizePolicyTest, RoundsToPagesAboveEitherThreshold) {
  AllocatorOptions options;
  options.pinned.max_round_bytes = 5 * kMiB;
  EXPECT_EQ(PinnedSizePolicy(options).fit(5 * kMiB - 1).block_bytes, 5 * kMiB);
  EXPECT_EQ(PinnedSizePolicy(options).fit(5 * kMiB + 1).block_bytes, 5 * kMiB + 4 * kKiB);
  options.pinned = {};
  options.pinned.max_cached_bytes = 100 * kMiB;
  const PinnedSizePolicy sizes(options);
  EXPECT_EQ(sizes.fit(101 * kMiB + 1).block_bytes, 101 * kMiB + 4 * kKiB);
  EXPECT_EQ(sizes.fit(97 * kMiB).block_bytes, 97 * kMiB) << "its class would not be cached";
  EXPECT_TRUE(sizes.is_cacheable(100 * kMiB));
  EXPECT_FALSE(sizes.is_cacheable(100 * kMiB + 1));
}

}  // namespace
}  // namespace ashlar
