// SPDX-License-Identifier: Apache-2.0
//
// Tests of the rounding of block sizes and of the classes of small blocks.
#include "engine/paged/pool/size_classes.h"

#include <gtest/gtest.h>

#include <map>

#include "base/align.h"
#include "base/units.h"

namespace ashlar::paged {
namespace {

TEST(SizeClassesTest, RoundsUpByASixteenthAtMost) {
  for (size_t bytes = 1; bytes < 3 * kMiB; bytes += 97) {
    const size_t exact = align_up(bytes, kMinBlockBytes);
    const size_t block = SizeClasses::block_bytes(bytes);
    ASSERT_GE(block, exact);
    ASSERT_EQ(block % kMinBlockBytes, 0U) << bytes;
    ASSERT_LE(block - exact, exact / 16) << bytes;
    const bool is_exact = exact <= 16 * kKiB || exact > kMiB;
    ASSERT_TRUE(!is_exact || block == exact) << bytes;
  }
}

TEST(SizeClassesTest, RoundsCorrectlyAroundItsLimits) {
  EXPECT_EQ(SizeClasses::block_bytes(1), kMinBlockBytes);
  EXPECT_EQ(SizeClasses::block_bytes(16 * kKiB), 16 * kKiB);
  EXPECT_EQ(SizeClasses::block_bytes(16 * kKiB + 1), 17 * kKiB);
  EXPECT_EQ(SizeClasses::block_bytes(kSmallLimitBytes), kSmallLimitBytes);
  EXPECT_EQ(SizeClasses::block_bytes(kSmallLimitBytes - 1), kSmallLimitBytes);
  EXPECT_EQ(SizeClasses::block_bytes(kSmallLimitBytes + 1), kSmallLimitBytes + kMinBlockBytes);
  EXPECT_EQ(SizeClasses::block_bytes(kRequestLimitBytes - 1), kRequestLimitBytes);
}

TEST(SizeClassesTest, BlockSizeIsAFixedPoint) {
  for (size_t bytes = 1; bytes < 2 * kMiB; bytes += 511) {
    const size_t block = SizeClasses::block_bytes(bytes);
    ASSERT_EQ(SizeClasses::block_bytes(block), block);
  }
}

TEST(SizeClassesTest, EachSmallSizeHasItsOwnClass) {
  std::map<size_t, size_t> sizes;  // keyed by class
  for (size_t bytes = 1; bytes <= kMiB; bytes += 511) {
    const size_t block = SizeClasses::block_bytes(bytes);
    const size_t number = SizeClasses::class_of(block);
    ASSERT_LT(number, SizeClasses::kCount);
    ASSERT_EQ(sizes.emplace(number, block).first->second, block);
  }
  EXPECT_EQ(sizes.size(), SizeClasses::kCount);
}

TEST(SizeClassesTest, RequestHasTheClassOfItsBlock) {
  for (size_t bytes = 1; bytes <= kMiB; bytes += 97) {
    ASSERT_EQ(SizeClasses::class_of(bytes), SizeClasses::class_of(SizeClasses::block_bytes(bytes)));
  }
}

TEST(SizeClassesTest, ImpossibleSizesAreZero) {
  EXPECT_EQ(SizeClasses::block_bytes(0), 0U);
  EXPECT_EQ(SizeClasses::block_bytes(SIZE_MAX), 0U);
}

}  // namespace
}  // namespace ashlar::paged
