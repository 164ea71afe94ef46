// SPDX-License-Identifier: Apache-2.0
//
// Tests of size parsing and formatting.
#include "base/units.h"

#include <gtest/gtest.h>

#include "base/align.h"

namespace ashlar {
namespace {

TEST(UnitsTest, ParsesSizesWithAndWithoutUnits) {
  EXPECT_EQ(*parse_bytes("0"), 0u);
  EXPECT_EQ(*parse_bytes("512"), 512u);
  EXPECT_EQ(*parse_bytes("512B"), 512u);
  EXPECT_EQ(*parse_bytes("1K"), kKiB);
  EXPECT_EQ(*parse_bytes("20MiB"), 20 * kMiB);
  EXPECT_EQ(*parse_bytes("20 mb"), 20 * kMiB);
  EXPECT_EQ(*parse_bytes("141GiB"), size_t{151397597184});
  EXPECT_EQ(*parse_bytes("1.5GiB"), kGiB + kGiB / 2);
  EXPECT_EQ(*parse_bytes("2TiB"), 2048 * kGiB);
}

TEST(UnitsTest, ParsesWholeBytesExactly) {
  EXPECT_EQ(*parse_bytes("9223372036854775807"), size_t{9223372036854775807u});
}

TEST(UnitsTest, RejectsInvalidSizesWithAnExample) {
  for (const char* wrong :
       {"", "12x", "GiB", "-1", "1..5", ".", "1e9", "0x10", " 5", "5  GiB", "1.0000001KiB",
        "9223372036854775808", "99999999999PiB", "5GiBs", "1111111111111111111111111"}) {
    const Result<size_t> parsed = parse_bytes(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong << " was read as " << *parsed;
    EXPECT_EQ(parsed.status().kind(), StatusKind::kFormat);
    EXPECT_NE(parsed.status().message().find(wrong), std::string::npos);
    EXPECT_NE(parsed.status().message().find("80GiB"), std::string::npos);
  }
}

TEST(UnitsTest, FormatsSizesWithTwoDecimals) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(20 * kMiB + kMiB / 2), "20.50 MiB");
  EXPECT_EQ(format_bytes(151397597184), "141.00 GiB");
  EXPECT_EQ(format_bytes(SIZE_MAX), "16384.00 PiB");
  EXPECT_EQ(format_bytes(3002197606), "2.80 GiB") << "as PyTorch rounds it";
  EXPECT_EQ(format_bytes(kGiB - 1), "1024.00 MiB");
}

TEST(AlignTest, RoundsUpAndDetectsOverflow) {
  EXPECT_EQ(align_up(1, 512), 512u);
  EXPECT_EQ(align_up(512, 512), 512u);
  EXPECT_EQ(align_down(1023, 512), 512u);
  EXPECT_TRUE(is_aligned(4096, 512));
  EXPECT_FALSE(is_aligned(4097, 512));
  EXPECT_EQ(try_align_up(1, 512), 512u);
  EXPECT_EQ(try_align_up(UINT64_MAX, 512), std::nullopt);
  EXPECT_EQ(try_align_up(UINT64_MAX - 511, 512), UINT64_MAX - 511);
}

}  // namespace
}  // namespace ashlar
