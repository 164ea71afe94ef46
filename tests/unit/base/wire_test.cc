// SPDX-License-Identifier: Apache-2.0
//
// Tests round trips from WireWriter to WireReader, and malformed input.
#include "base/wire.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(Wire, ValuesSurviveRoundTrip) {
  WireWriter writer;
  writer.append_number(uint8_t{7})
      .append_number(int32_t{-2})
      .append_number(uint64_t{1} << 63)
      .append_text("word")
      .append_raw("end");
  const std::string bytes = writer.take();
  EXPECT_EQ(bytes.substr(1, 4), "\xfe\xff\xff\xff");  // little-endian on every machine
  WireReader reader(bytes);
  EXPECT_EQ(reader.number<uint8_t>(), 7);
  EXPECT_EQ(reader.number<int32_t>(), -2);
  EXPECT_EQ(reader.number<uint64_t>(), uint64_t{1} << 63);
  EXPECT_EQ(reader.text(4), "word");
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.is_done());
  EXPECT_EQ(reader.raw(3), "end");
  EXPECT_TRUE(reader.is_done());
}

TEST(Wire, FailsOnTruncatedInput) {
  WireReader reader("abc");
  EXPECT_EQ(reader.number<uint32_t>(), 0U);
  EXPECT_EQ(reader.number<uint8_t>(), 0);  // all further reads return 0
  EXPECT_FALSE(reader.ok());
}

TEST(Wire, RejectsOverlongText) {
  WireWriter writer;
  const std::string bytes = writer.append_text("word").take();
  EXPECT_EQ(WireReader(bytes).text(4), "word");
  WireReader reader(bytes);
  EXPECT_EQ(reader.text(3), "");
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace ashlar
