// SPDX-License-Identifier: Apache-2.0
//
// Tests of block and segment sizes, divisions and oversize blocks.
#include "engine/size_policy.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace ashlar {
namespace {

struct SizeRow {
  size_t requested_bytes;
  size_t block_bytes;
  bool is_small;
  size_t segment_bytes;
};

TEST(SizePolicyTest, RoundsRequestsLikePyTorch) {
  const SizePolicy sizes{AllocatorOptions{}};
  const SizeRow rows[] = {
      {1, 512, true, 2 * kMiB},
      {511, 512, true, 2 * kMiB},
      {512, 512, true, 2 * kMiB},
      {513, 1024, true, 2 * kMiB},
      {kMiB, kMiB, true, 2 * kMiB},
      {kMiB + 1, kMiB + 512, false, 20 * kMiB},
      {kMiB * 19 / 2, kMiB * 19 / 2, false, 20 * kMiB},
      {10 * kMiB - 512, 10 * kMiB - 512, false, 20 * kMiB},
      {10 * kMiB, 10 * kMiB, false, 10 * kMiB},
      {11 * kMiB, 11 * kMiB, false, 12 * kMiB},
      {21 * kMiB, 21 * kMiB, false, 22 * kMiB},
  };
  for (const SizeRow& row : rows) {
    SCOPED_TRACE(row.requested_bytes);
    const size_t block_bytes = sizes.block_bytes(row.requested_bytes);
    EXPECT_EQ(block_bytes, row.block_bytes);
    EXPECT_EQ(SizePolicy::is_small(block_bytes), row.is_small);
    EXPECT_EQ(sizes.segment_bytes(block_bytes), row.segment_bytes);
  }
}

TEST(SizePolicyTest, OptionSetsLargeSegmentSize) {
  AllocatorOptions options;
  options.large_segment_bytes = 64 * kMiB;
  const SizePolicy sizes(options);
  EXPECT_EQ(sizes.segment_bytes(2 * kMiB), 64 * kMiB);
  EXPECT_EQ(sizes.segment_bytes(10 * kMiB), 10 * kMiB) << "larger ones get their own";
  EXPECT_EQ(sizes.expandable_granule_bytes(false), 64 * kMiB);
  EXPECT_EQ(sizes.expandable_granule_bytes(true), 2 * kMiB);
}

TEST(SizePolicyTest, RoundsUpToDivisions) {
  AllocatorOptions options;
  options.roundup_power2_divisions.fill(4);
  const SizePolicy sizes(options);
  EXPECT_EQ(sizes.block_bytes(1200), 1536U) << "at most 512 B times the divisions: in steps of 512";
  EXPECT_EQ(sizes.block_bytes(2048), 2048U);
  EXPECT_EQ(sizes.block_bytes(2049), 2560U);
  EXPECT_EQ(sizes.block_bytes(5 * kMiB + 1), 6 * kMiB);
  EXPECT_EQ(sizes.block_bytes(4 * kMiB), 4 * kMiB) << "a power of two stays";
  EXPECT_EQ(sizes.block_bytes(7 * kMiB + 1), 8 * kMiB);
}

TEST(SizePolicyTest, DivisionsDependOnSize) {
  AllocatorOptions options;
  options.roundup_power2_divisions[0] = 2;   // sizes below 2 MiB
  options.roundup_power2_divisions[2] = 8;   // sizes from 4 to 8 MiB
  options.roundup_power2_divisions[15] = 2;  // sizes of 32 GiB and more
  const SizePolicy sizes(options);
  EXPECT_EQ(sizes.block_bytes(1025), 1536U);
  EXPECT_EQ(sizes.block_bytes(kMiB + 1), kMiB + kMiB / 2) << "slot 0 reaches up to 2 MiB";
  EXPECT_EQ(sizes.block_bytes(2 * kMiB + 1), 2 * kMiB + 512) << "off: in steps of 512 B";
  EXPECT_EQ(sizes.block_bytes(4 * kMiB + 1), 4 * kMiB + kMiB / 2);
  EXPECT_EQ(sizes.block_bytes(32 * kGiB + 1), 48 * kGiB);
  EXPECT_EQ(sizes.block_bytes(128 * kGiB + 1), 192 * kGiB) << "the last slot is unbounded";
}

TEST(SizePolicyTest, OneDivisionDisablesRounding) {
  AllocatorOptions options;
  options.roundup_power2_divisions.fill(1);
  EXPECT_EQ(SizePolicy(options).block_bytes(5 * kMiB + 1), 5 * kMiB + 512);
}

TEST(SizePolicyTest, AnyBlockServesWithoutLimit) {
  const SizePolicy sizes{AllocatorOptions{}};
  EXPECT_TRUE(sizes.may_serve(kGiB, 512));
  EXPECT_EQ(sizes.max_split_bytes(), SIZE_MAX);
}

TEST(SizePolicyTest, OversizeBlocksServeSimilarSizes) {
  AllocatorOptions options;
  options.max_split_bytes = 100 * kMiB;
  const SizePolicy sizes(options);
  EXPECT_TRUE(sizes.may_serve(100 * kMiB - 512, 512));
  EXPECT_FALSE(sizes.may_serve(100 * kMiB, 100 * kMiB - 512)) << "oversize, for one that is not";
  EXPECT_TRUE(sizes.may_serve(120 * kMiB - 512, 100 * kMiB));
  EXPECT_FALSE(sizes.may_serve(120 * kMiB, 100 * kMiB)) << "a large segment more is too much";
}

TEST(SizePolicyTest, OptionSetsOversizeRounding) {
  AllocatorOptions options;
  options.max_split_bytes = 100 * kMiB;
  options.max_non_split_rounding_bytes = 30 * kMiB;
  const SizePolicy sizes(options);
  EXPECT_TRUE(sizes.may_serve(130 * kMiB - 512, 100 * kMiB));
  EXPECT_FALSE(sizes.may_serve(130 * kMiB, 100 * kMiB));
}

}  // namespace
}  // namespace ashlar
