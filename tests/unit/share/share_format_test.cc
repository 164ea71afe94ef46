// SPDX-License-Identifier: Apache-2.0
//
// Tests of share handles: round trips and rejection of malformed bytes.
#include "share/share_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"
#include "base/units.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

ShareHandle plain() {
  ShareHandle handle;
  handle.kind = ShareHandle::Kind::kAllocation;
  std::iota(handle.device.begin(), handle.device.end(), uint8_t{1});
  std::iota(handle.exporter.begin(), handle.exporter.end(), uint8_t{101});
  handle.exporter_pid = 0x01020304;
  handle.share_id = 0x1122334455667788;
  handle.offset = 3 * kMiB;
  handle.bytes = 5 * kMiB + 7;
  handle.range_bytes = 20 * kMiB;
  std::iota(handle.allocation.begin(), handle.allocation.end(), uint8_t{17});
  return handle;
}

ShareHandle extents() {
  ShareHandle handle = plain();
  handle.kind = ShareHandle::Kind::kExtents;
  handle.allocation = {};
  handle.offset = 15 * kMiB;
  handle.bytes = 30 * kMiB;
  handle.range_bytes = 60 * kMiB;
  handle.granule_bytes = 20 * kMiB;
  handle.granule_count = 3;
  return handle;
}

std::string error_for(const std::string& bytes) {
  const Result<ShareHandle> handle = parse_share_handle(bytes);
  EXPECT_FALSE(handle.ok());
  EXPECT_EQ(handle.status().kind(), StatusKind::kFormat);
  return handle.status().message();
}

TEST(ShareFormatTest, RoundTripsHandles) {
  for (const ShareHandle& handle : {plain(), extents()}) {
    const std::string bytes = to_bytes(handle);
    EXPECT_EQ(bytes.size(), kShareHandleBytes);
    const Result<ShareHandle> read = parse_share_handle(bytes);
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(*read, handle);
  }
}

TEST(ShareFormatTest, BytesIdentifyTheHandle) {
  const std::string before = to_bytes(extents());
  EXPECT_EQ(to_bytes(extents()), before);
  const auto changed = [](auto change) {
    ShareHandle handle = extents();
    change(handle);
    return to_bytes(handle);
  };
  EXPECT_NE(changed([](ShareHandle& h) { h.device[15] = 0; }), before);
  EXPECT_NE(changed([](ShareHandle& h) { h.exporter[15] = 0; }), before);
  EXPECT_NE(changed([](ShareHandle& h) { ++h.exporter_pid; }), before);
  EXPECT_NE(changed([](ShareHandle& h) { h.share_id += uint64_t{1} << 56; }), before);
  EXPECT_NE(changed([](ShareHandle& h) { ++h.offset; }), before);
  EXPECT_NE(changed([](ShareHandle& h) { ++h.bytes; }), before);
  EXPECT_NE(changed([](ShareHandle& h) { ++h.range_bytes; }), before);
  EXPECT_NE(changed([](ShareHandle& h) { ++h.granule_bytes; }), before);
  EXPECT_NE(changed([](ShareHandle& h) { ++h.granule_count; }), before);
  EXPECT_NE(changed([](ShareHandle& h) { h.allocation[63] = 1; }), before);
}

TEST(ShareFormatTest, MatchesTheDocumentedLayout) {
  const std::string bytes = to_bytes(extents());
  EXPECT_EQ(bytes.substr(0, 8), "ashshare");
  EXPECT_EQ(bytes.substr(8, 2), std::string("\1\0", 2));
  EXPECT_EQ(bytes[10], 'e');
  EXPECT_EQ(bytes[11], 1);
  EXPECT_EQ(bytes.substr(12, 4), "\x04\x03\x02\x01");
  EXPECT_EQ(bytes[16], 1);
  EXPECT_EQ(bytes[32], 101);
  EXPECT_EQ(bytes.substr(48, 8), "\x88\x77\x66\x55\x44\x33\x22\x11");
  EXPECT_EQ(bytes.substr(88, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(96), std::string(96, '\0')) << "unused fields must be zero";
  EXPECT_EQ(to_bytes(plain())[10], 'c');
  EXPECT_EQ(to_bytes(plain())[11], 0);
  EXPECT_EQ(to_bytes(plain()).substr(80, 16), std::string(16, '\0'));
  EXPECT_EQ(to_bytes(plain())[96], 17);
  EXPECT_EQ(to_bytes(plain()).substr(160), std::string(32, '\0'));
}

TEST(ShareFormatTest, RejectsTruncatedHandles) {
  for (const ShareHandle& handle : {plain(), extents()}) {
    const std::string bytes = to_bytes(handle);
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THAT(error_for(bytes.substr(0, length)), HasSubstr("not the handle")) << length;
    }
    EXPECT_THAT(error_for(bytes + '\0'), HasSubstr("it has 193 bytes, expected 192"));
    EXPECT_THAT(error_for(bytes + bytes), HasSubstr("expected 192"));
  }
}

TEST(ShareFormatTest, ReportsNewerVersionOfAnyLength) {
  std::string bytes = to_bytes(plain());
  bytes[8] = 2;
  EXPECT_THAT(error_for(bytes), HasSubstr("from a newer version (format 2, this reads 1)"));
  EXPECT_THAT(error_for(bytes.substr(0, 30)), HasSubstr("from a newer version"));
  EXPECT_THAT(error_for(bytes + "more"), HasSubstr("from a newer version"));
  bytes[8] = 0;
  EXPECT_THAT(error_for(bytes), HasSubstr("there is no format 0"));
}

TEST(ShareFormatTest, RejectsUnknownKindAndTransport) {
  std::string bytes = to_bytes(extents());
  bytes[10] = 'x';
  EXPECT_THAT(error_for(bytes), HasSubstr("its kind is unknown: 120"));
  bytes = to_bytes(extents());
  bytes[11] = 9;
  EXPECT_THAT(error_for(bytes), HasSubstr("its transport is unknown: 9"));
  bytes[11] = 2;
  EXPECT_THAT(error_for(bytes), HasSubstr("over a fabric"));
  bytes = to_bytes(plain());
  bytes[11] = 1;
  EXPECT_THAT(error_for(bytes), HasSubstr("but has granules"));
}

TEST(ShareFormatTest, RejectsNonZeroReservedBytes) {
  for (size_t at = 160; at < kShareHandleBytes; ++at) {
    std::string bytes = to_bytes(plain());
    bytes[at] = 1;
    EXPECT_THAT(error_for(bytes), HasSubstr("reserved bytes are not zero")) << at;
  }
  for (size_t at = 96; at < 160; ++at) {
    std::string bytes = to_bytes(extents());
    bytes[at] = 1;
    EXPECT_THAT(error_for(bytes), HasSubstr("has an allocation handle")) << at;
  }
  for (size_t at = 80; at < 96; ++at) {
    std::string bytes = to_bytes(plain());
    bytes[at] = 1;
    EXPECT_THAT(error_for(bytes), HasSubstr("but has granules")) << at;
  }
}

TEST(ShareFormatTest, RejectsInconsistentNumbers) {
  const auto wrong = [](ShareHandle handle, auto change) {
    change(handle);
    return error_for(to_bytes(handle));
  };
  constexpr const char* kOutOfRange = "is out of range";
  constexpr const char* kBadGranules = "do not make a range";
  EXPECT_THAT(wrong(plain(), [](ShareHandle& h) { h.bytes = 0; }), HasSubstr(kOutOfRange));
  EXPECT_THAT(wrong(plain(), [](ShareHandle& h) { h.offset = 21 * kMiB; }), HasSubstr(kOutOfRange));
  EXPECT_THAT(wrong(plain(), [](ShareHandle& h) { h.bytes = 18 * kMiB; }), HasSubstr(kOutOfRange));
  EXPECT_THAT(wrong(plain(), [](ShareHandle& h) { h.bytes = UINT64_MAX; }), HasSubstr(kOutOfRange));
  EXPECT_THAT(wrong(plain(), [](ShareHandle& h) { h.range_bytes = UINT64_MAX; }),
              HasSubstr(kOutOfRange));
  EXPECT_THAT(wrong(extents(), [](ShareHandle& h) { h.granule_count = 0; }),
              HasSubstr(kBadGranules));
  EXPECT_THAT(wrong(extents(), [](ShareHandle& h) { h.granule_bytes = 0; }),
              HasSubstr(kBadGranules));
  EXPECT_THAT(wrong(extents(), [](ShareHandle& h) { h.granule_count = 4; }),
              HasSubstr(kBadGranules));
  EXPECT_THAT(wrong(extents(), [](ShareHandle& h) { h.granule_bytes += 1; }),
              HasSubstr(kBadGranules));
  EXPECT_THAT(wrong(extents(),
                    [](ShareHandle& h) {
                      h.granule_bytes = uint64_t{1} << 62;  // 4 granules overflow to a size of 0
                      h.granule_count = 4;
                    }),
              HasSubstr(kBadGranules));
  EXPECT_THAT(wrong(extents(),
                    [](ShareHandle& h) {
                      h.granule_bytes = 1;
                      h.granule_count = h.range_bytes;
                    }),
              HasSubstr(kBadGranules));
  EXPECT_THAT(wrong(extents(), [](ShareHandle& h) { h.bytes = 20 * kMiB; }),
              HasSubstr("granules that the block does not overlap"));
  EXPECT_THAT(wrong(extents(), [](ShareHandle& h) { h.offset = 20 * kMiB; }),
              HasSubstr("granules that the block does not overlap"));
}

TEST(ShareFormatTest, AcceptsBareAllocationHandle) {
  std::string bytes(64, 'h');
  const Result<ShareHandle> handle = parse_share_handle(bytes);
  ASSERT_TRUE(handle.ok()) << handle.status().to_string();
  EXPECT_TRUE(handle->is_bare);
  EXPECT_EQ(handle->kind, ShareHandle::Kind::kAllocation);
  EXPECT_EQ(handle->allocation[63], 'h');
  EXPECT_EQ(handle->offset, 0U);
}

TEST(ShareFormatTest, AcceptsAllocationHandleOfPyTorch) {
  for (const char version : {'\1', '\2'}) {
    const std::string bytes = std::string{version, 'c'} + std::string(64, 'h');
    const Result<ShareHandle> handle = parse_share_handle(bytes);
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    EXPECT_TRUE(handle->is_bare);
    EXPECT_EQ(handle->allocation[0], 'h');
  }
}

TEST(ShareFormatTest, RejectsOtherHandlesOfPyTorch) {
  const auto error_of = [](const std::string& bytes) {
    const Status failure = parse_share_handle(bytes).status();
    EXPECT_EQ(failure.kind(), StatusKind::kFormat);
    return failure.message();
  };
  EXPECT_THAT(error_of(std::string("\1e") + std::string(40, 'x')), HasSubstr("expandable segment"));
  EXPECT_THAT(error_of(std::string("\3c") + std::string(64, 'h')), HasSubstr("expected 1 to 2"));
  EXPECT_THAT(error_of(std::string("\1c") + std::string(63, 'h')), HasSubstr("65 bytes"));
}

// Arbitrary bytes are either rejected, or parsed to a value that serializes to the same bytes.
TEST(ShareFormatTest, ParsesOrRejectsRandomChanges) {
  const uint64_t seed = 20261115;
  Random random(seed);
  for (int run = 0; run < 20000; ++run) {
    std::string bytes = to_bytes(random.below(2) == 0 ? plain() : extents());
    for (uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    }
    const Result<ShareHandle> handle = parse_share_handle(bytes);
    if (handle.ok()) {
      EXPECT_EQ(to_bytes(*handle), bytes) << "seed " << seed << ", run " << run;
      EXPECT_LE(handle->offset + handle->bytes, handle->range_bytes);
    } else {
      EXPECT_EQ(handle.status().kind(), StatusKind::kFormat);
    }
  }
}

}  // namespace
}  // namespace ashlar
