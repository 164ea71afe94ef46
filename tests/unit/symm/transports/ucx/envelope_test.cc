// SPDX-License-Identifier: Apache-2.0
//
// Tests serialized addresses and keys: only intact serializations of the same UCX version are
// accepted.
#include "symm/transports/ucx/envelope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "symm/transports/transport.h"

namespace ashlar::symm {
namespace {

using ::testing::HasSubstr;

Envelope make_key() { return {EnvelopeKind::kKey, 0x1000, 64, {'k', 'e', 'y'}}; }

TEST(UcxEnvelopeTest, RoundTripsWithZeroPadding) {
  const Result<Envelope> opened = open_envelope(EnvelopeKind::kKey, seal(make_key()));
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  EXPECT_EQ(opened->base, 0x1000);
  EXPECT_EQ(opened->bytes, 64);
  EXPECT_EQ(std::string(opened->content.data(), 3), "key");
  ASSERT_GT(opened->content.size(), 3U + 1000U);
  EXPECT_EQ(std::count(opened->content.begin() + 3, opened->content.end(), 0),
            static_cast<int64_t>(opened->content.size()) - 3);
}

TEST(UcxEnvelopeTest, RejectsTruncatedAndChangedBytes) {
  const std::string sealed = seal(make_key());
  for (size_t length = 0; length < sealed.size(); ++length) {
    EXPECT_EQ(open_envelope(EnvelopeKind::kKey, sealed.substr(0, length)).status().kind(),
              StatusKind::kFormat)
        << length;
  }
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    EXPECT_EQ(open_envelope(EnvelopeKind::kKey, changed).status().kind(), StatusKind::kFormat) << i;
  }
}

TEST(UcxEnvelopeTest, RejectsWrongKindLengthAndRange) {
  const auto error_of = [](EnvelopeKind kind, const std::string& sealed) {
    return open_envelope(kind, sealed).status().to_string();
  };
  EXPECT_THAT(error_of(EnvelopeKind::kAddress, seal(make_key())), HasSubstr("not a UCX address"));
  Envelope wrapping = make_key();
  wrapping.base = UINT64_MAX;
  EXPECT_THAT(error_of(EnvelopeKind::kKey, seal(wrapping)), HasSubstr("impossible memory range"));
  Envelope empty = make_key();
  empty.bytes = 0;
  EXPECT_THAT(error_of(EnvelopeKind::kKey, seal(empty)), HasSubstr("impossible memory range"));
  Envelope too_long = make_key();
  too_long.content.resize(Transport::kMaxKeyBytes);
  EXPECT_THAT(error_of(EnvelopeKind::kKey, seal(too_long)), HasSubstr("not a UCX key"));
}

}  // namespace
}  // namespace ashlar::symm
