// SPDX-License-Identifier: Apache-2.0
//
// Tests of parsing responses, including malformed responses.
#include "http/response.h"

#include <gtest/gtest.h>

#include <string>

#include "http/request.h"

namespace ashlar::http {
namespace {

TEST(ResponseTest, ParsesServerResponses) {
  Response answer;
  answer.code = 404;
  answer.body = "12345";
  const std::optional<ResponseHead> kept = parse_response_head(format_head(answer, true));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->code, 404);
  EXPECT_EQ(kept->body_bytes, 5U);
  EXPECT_TRUE(kept->keeps_alive);
  EXPECT_FALSE(parse_response_head(format_head(answer, false))->keeps_alive);
}

TEST(ResponseTest, RejectsEverythingElse) {
  for (const std::string bytes :
       {"", "\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 99 OK\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 600 OK\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 2e2 OK\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno field\r\nContent-Length: 1\r\n\r\n"}) {
    EXPECT_FALSE(parse_response_head(bytes)) << bytes;
  }
  const std::string long_field(kMaxHeadBytes, 'a');
  EXPECT_FALSE(
      parse_response_head("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX: " + long_field + "\r\n\r\n"));
}

}  // namespace
}  // namespace ashlar::http
