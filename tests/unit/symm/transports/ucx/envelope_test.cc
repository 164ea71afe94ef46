// SPDX-License-Identifier: Apache-2.0
//
// Bytes from others: whatever they are, UCX sees none but whole ones of its own release.
#include "symm/transports/ucx/envelope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "symm/transports/transport.h"

namespace ashlar::symm {
namespace {

using ::testing::HasSubstr;

Envelope a_key() { return {EnvelopeKind::kKey, 0x1000, 64, {'k', 'e', 'y'}}; }

TEST(UcxEnvelopeTest, ComesOutAsItWentInFollowedByZeroes) {
  const Result<Envelope> opened = open_envelope(EnvelopeKind::kKey, seal(a_key()));
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  EXPECT_EQ(opened->base, 0x1000);
  EXPECT_EQ(opened->bytes, 64);
  EXPECT_EQ(std::string(opened->content.data(), 3), "key");
  ASSERT_GT(opened->content.size(), 3U + 1000U);
  EXPECT_EQ(std::count(opened->content.begin() + 3, opened->content.end(), 0),
            static_cast<int64_t>(opened->content.size()) - 3);
}

TEST(UcxEnvelopeTest, IsRefusedWhereverItIsCutOrChanged) {
  const std::string sealed = seal(a_key());
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

TEST(UcxEnvelopeTest, OfAnotherKindOrTooLongOrOfImpossibleMemoryIsRefused) {
  const auto refusal = [](EnvelopeKind kind, const std::string& sealed) {
    return open_envelope(kind, sealed).status().to_string();
  };
  EXPECT_THAT(refusal(EnvelopeKind::kAddress, seal(a_key())), HasSubstr("no address of UCX"));
  Envelope around_the_end = a_key();
  around_the_end.base = UINT64_MAX;
  EXPECT_THAT(refusal(EnvelopeKind::kKey, seal(around_the_end)), HasSubstr("cannot be"));
  Envelope of_nothing = a_key();
  of_nothing.bytes = 0;
  EXPECT_THAT(refusal(EnvelopeKind::kKey, seal(of_nothing)), HasSubstr("cannot be"));
  Envelope long_one = a_key();
  long_one.content.resize(Transport::kMaxKeyBytes);
  EXPECT_THAT(refusal(EnvelopeKind::kKey, seal(long_one)), HasSubstr("no key of UCX"));
}

}  // namespace
}  // namespace ashlar::symm
