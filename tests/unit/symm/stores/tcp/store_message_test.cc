// SPDX-License-Identifier: Apache-2.0
//
// Tests the messages of TCP stores: valid messages round-trip through serialization, and malformed
// messages are rejected.
#include "symm/stores/tcp/store_message.h"

#include <gtest/gtest.h>

namespace ashlar::symm {
namespace {

std::vector<StoreRequest> one_of_each_request() {
  std::vector<StoreRequest> all;
  all.push_back({.call = StoreCall::kHello, .token = "0123456789abcdef"});
  all.push_back({.call = StoreCall::kSet, .keys = {"a/b"}, .value = std::string("x\0y", 3)});
  all.back().time_to_live_ms = 1234;
  all.push_back({.call = StoreCall::kTryGet, .keys = {"a", "b/c"}});
  all.push_back({.call = StoreCall::kAdd, .keys = {"n"}});
  all.back().amount = -5;
  all.back().receipt = {7, 8};
  all.push_back({.call = StoreCall::kErase, .keys = {"a"}});
  all.push_back({.call = StoreCall::kWait});
  all.back().version = 99;
  all.back().wait_ms = 10;
  return all;
}

std::string body_of(const std::string& frame) {
  EXPECT_EQ(body_bytes(frame), frame.size() - kFrameHeaderBytes);
  return frame.substr(kFrameHeaderBytes);
}

TEST(StoreMessage, RequestsSurviveSerialization) {
  for (const StoreRequest& request : one_of_each_request()) {
    const Result<StoreRequest> parsed = parse_request(body_of(serialize(request)));
    ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
    EXPECT_EQ(*parsed, request);
  }
}

TEST(StoreMessage, ResponsesSurviveSerialization) {
  StoreResponse response;
  response.number = -3;
  response.values = {"one", std::nullopt, ""};
  const Result<StoreResponse> parsed = parse_response(body_of(serialize(response)));
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  EXPECT_EQ(parsed->number, -3);
  EXPECT_EQ(parsed->values, response.values);

  const Result<StoreResponse> error =
      parse_response(body_of(serialize({.status = Status::out_of_memory("full")})));
  ASSERT_TRUE(error.ok());
  EXPECT_TRUE(error->status.is_out_of_memory());
  EXPECT_EQ(error->status.message(), "full");
}

TEST(StoreMessage, RejectsTruncatedAndExtendedMessages) {
  for (const StoreRequest& request : one_of_each_request()) {
    const std::string body = body_of(serialize(request));
    for (size_t bytes = 0; bytes < body.size(); ++bytes) {
      EXPECT_FALSE(parse_request(body.substr(0, bytes)).ok());
    }
    EXPECT_FALSE(parse_request(body + '\0').ok());
  }
  StoreResponse response;
  response.values = {"one"};
  const std::string body = body_of(serialize(response));
  for (size_t bytes = 0; bytes < body.size(); ++bytes) {
    EXPECT_FALSE(parse_response(body.substr(0, bytes)).ok());
  }
  EXPECT_FALSE(parse_response(body + '\0').ok());
}

TEST(StoreMessage, AcceptsOnlyCanonicalMessages) {
  for (const StoreRequest& request : one_of_each_request()) {
    const std::string frame = serialize(request);
    for (size_t i = kFrameHeaderBytes; i < frame.size(); ++i) {
      for (const int change : {1, 0x80, 0xff}) {
        std::string changed = frame;
        changed[i] = static_cast<char>(changed[i] ^ change);
        const Result<StoreRequest> parsed = parse_request(changed.substr(kFrameHeaderBytes));
        EXPECT_TRUE(!parsed.ok() || serialize(*parsed) == changed);
      }
    }
  }
}

TEST(StoreMessage, RejectsInvalidKeysTokensAndCounts) {
  const auto parses = [](const StoreRequest& request) {
    return parse_request(body_of(serialize(request))).ok();
  };
  EXPECT_FALSE(parses({.call = StoreCall::kSet, .keys = {"a b"}}));
  EXPECT_FALSE(parses({.call = StoreCall::kErase, .keys = {""}}));
  EXPECT_FALSE(parses({.call = StoreCall::kTryGet}));
  EXPECT_FALSE(parses({.call = StoreCall::kHello, .token = "short"}));
  EXPECT_FALSE(parses({.call = StoreCall::kHello, .token = "with spaces in it"}));
  StoreRequest request{.call = StoreCall::kTryGet};
  request.keys.assign(kMaxRequestKeys, "k");
  EXPECT_TRUE(parses(request));
  request.keys.emplace_back("k");
  EXPECT_FALSE(parses(request));
  request = {
      .call = StoreCall::kSet, .keys = {"k"}, .value = std::string(Store::kMaxValueBytes, 'x')};
  EXPECT_TRUE(parses(request));
  EXPECT_LE(serialize(request).size(), kFrameHeaderBytes + kMaxRequestBytes);
  request.value += 'x';
  EXPECT_FALSE(parses(request));
}

}  // namespace
}  // namespace ashlar::symm
