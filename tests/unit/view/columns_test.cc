// SPDX-License-Identifier: Apache-2.0
//
// Tests the byte layout that docs/reference/formats/view.md specifies.
#include "view/columns.h"

#include <gtest/gtest.h>

#include "unit/view/columns_reader.h"

namespace ashlar::view {
namespace {

TEST(ColumnsTest, MatchTheDocumentedLayout) {
  Columns columns;
  columns.add("small", std::vector<uint8_t>{1, 2, 3});
  columns.add("sixteen_letters_", std::vector<uint32_t>{0x01020304});
  const std::string bytes = columns.take();
  const std::string expected = std::string("ASHV\x02\0\0\0", 8) +                           //
                               std::string("small\0\0\0\0\0\0\0\0\0\0\0", 16) +             //
                               std::string("\x01\0\0\0\x03\0\0\0\x48\0\0\0\0\0\0\0", 16) +  //
                               std::string("sixteen_letters_") +                            //
                               std::string("\x03\0\0\0\x01\0\0\0\x50\0\0\0\0\0\0\0", 16) +  //
                               std::string("\x01\x02\x03\0\0\0\0\0", 8) +                   //
                               std::string("\x04\x03\x02\x01\0\0\0\0", 8);
  EXPECT_EQ(bytes, expected);
}

TEST(ColumnsTest, RoundTripAllTypes) {
  Columns columns;
  columns.add("u16", std::vector<uint16_t>{1, 65535});
  columns.add("u64", std::vector<uint64_t>{UINT64_MAX});
  columns.add("f32", std::vector<float>{0.5F});
  columns.add("f64", std::vector<double>{-1e300, 2});
  columns.add("none", std::vector<double>{});
  const ColumnsReader read(columns.take());
  EXPECT_EQ(read.column<uint16_t>("u16"), (std::vector<uint16_t>{1, 65535}));
  EXPECT_EQ(read.column<uint64_t>("u64"), (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ(read.column<float>("f32"), (std::vector<float>{0.5F}));
  EXPECT_EQ(read.column<double>("f64"), (std::vector<double>{-1e300, 2}));
  EXPECT_TRUE(read.column<double>("none").empty());
  EXPECT_EQ(read.size(), 5U);
}

}  // namespace
}  // namespace ashlar::view
