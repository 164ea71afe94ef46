// SPDX-License-Identifier: Apache-2.0
//
// Tests of parsing requests, including malformed requests.
#include "http/request.h"

#include <gtest/gtest.h>

namespace ashlar::http {
namespace {

// Returns a request head with CRLF line endings and a Host header.
std::string head(const std::string& request_line, const std::string& fields = "") {
  return request_line + "\r\nHost: localhost:80\r\n" + fields + "\r\n";
}

TEST(RequestTest, ParsesPathQueryAndHost) {
  const ParsedHead parsed = parse_head(head("GET /token/d/0/tile?by=stack&level=3 HTTP/1.1"));
  ASSERT_TRUE(parsed.head) << parsed.why;
  EXPECT_EQ(parsed.head->method, Method::kGet);
  EXPECT_EQ(parsed.head->path, "/token/d/0/tile");
  EXPECT_EQ(parsed.head->query, "by=stack&level=3");
  EXPECT_EQ(parsed.head->host, "localhost:80");
  EXPECT_TRUE(parsed.head->keeps_alive);
  EXPECT_EQ(parsed.head->body_bytes, 0U);
}

TEST(RequestTest, IgnoresCaseOfFieldNamesAndValues) {
  const ParsedHead parsed = parse_head(
      head("POST /open HTTP/1.1",
           "CONTENT-LENGTH: 12\r\nConnection: Upgrade, Close\r\nexpect: 100-Continue\r\n"));
  ASSERT_TRUE(parsed.head) << parsed.why;
  EXPECT_EQ(parsed.head->method, Method::kPost);
  EXPECT_EQ(parsed.head->body_bytes, 12U);
  EXPECT_FALSE(parsed.head->keeps_alive);
  EXPECT_TRUE(parsed.head->expects_continue);
}

TEST(RequestTest, JoinsAcceptFields) {
  const ParsedHead parsed =
      parse_head(head("GET / HTTP/1.1", "Accept: text/plain;q=0.5\r\naccept:  */*;q=0.1 \r\n"));
  ASSERT_TRUE(parsed.head) << parsed.why;
  EXPECT_EQ(parsed.head->accept, "text/plain;q=0.5,*/*;q=0.1");
}

TEST(RequestTest, RejectsMalformedRequests) {
  struct Row {
    std::string bytes;
    int code;
  };
  const std::string long_text(kMaxLineBytes, 'a');
  std::string many_fields;
  for (size_t i = 0; i < kMaxFields; ++i) many_fields += "X: y\r\n";
  const Row rows[] = {
      {"", 400},
      {"\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\n", 400},                  // incomplete
      {"GET / HTTP/1.1\nHost: a\n\n", 400},                    // bare line feeds
      {head("GET"), 400},                                      // method only
      {head("GET /"), 400},                                    // no version
      {head("GET  / HTTP/1.1"), 400},                          // two spaces
      {head("G T / HTTP/1.1"), 400},                           // a space in the method
      {head("GET http://a/ HTTP/1.1"), 400},                   // no path
      {head("GET /a#b HTTP/1.1"), 400},                        // a fragment
      {head(std::string("GET /\0 HTTP/1.1", 15)), 400},        // a control character
      {head("GET /\xc3\xa4 HTTP/1.1"), 400},                   // not encoded
      {head("GET / HTTP/11"), 400},                            // no version
      {head("GET / HTTP/1.0"), 505},                           // an older version
      {head("GET / HTTP/2.0"), 505},                           // a newer version
      {head("PUT / HTTP/1.1"), 405},                           // unsupported methods
      {head("HEAD / HTTP/1.1"), 405},                          //
      {"GET / HTTP/1.1\r\n\r\n", 400},                         // no host
      {head("GET / HTTP/1.1", "Host: b\r\n"), 400},            // two hosts
      {head("GET / HTTP/1.1", "no colon\r\n"), 400},           // not a field
      {head("GET / HTTP/1.1", "Na me: b\r\n"), 400},           // a space in the name
      {head("GET / HTTP/1.1", " folded: b\r\n"), 400},         // a folded line
      {head("GET / HTTP/1.1", "A: b\x01\r\n"), 400},           // a control character
      {head("GET / HTTP/1.1", "A: b\rc\r\n"), 400},            // a bare carriage return
      {head("GET / HTTP/1.1", "Content-Length: 5\r\n"), 400},  // GET with a body
      {head("POST / HTTP/1.1"), 411},                          // no length
      {head("POST / HTTP/1.1", "Transfer-Encoding: chunked\r\n"), 411},
      {head("POST / HTTP/1.1", "Content-Length: -1\r\n"), 400},   // invalid lengths
      {head("POST / HTTP/1.1", "Content-Length: +1\r\n"), 400},   //
      {head("POST / HTTP/1.1", "Content-Length: 1 2\r\n"), 400},  //
      {head("POST / HTTP/1.1", "Content-Length: 99999999999999999999\r\n"), 400},
      {head("POST / HTTP/1.1", "Content-Length: 1\r\nContent-Length: 1\r\n"), 400},
      {head("POST / HTTP/1.1", "Content-Length: 1\r\nExpect: tea\r\n"), 417},
      {head("GET /" + long_text + " HTTP/1.1"), 431},
      {head("GET / HTTP/1.1", "A: " + long_text + "\r\n"), 431},
      {head("GET / HTTP/1.1", many_fields), 431},
  };
  for (const Row& row : rows) {
    const ParsedHead parsed = parse_head(row.bytes);
    EXPECT_FALSE(parsed.head) << row.bytes.substr(0, 80);
    EXPECT_EQ(parsed.code, row.code) << row.bytes.substr(0, 80);
    EXPECT_NE(parsed.why, "");
  }
}

TEST(RequestTest, FindsTheEndOfTheHead) {
  EXPECT_EQ(end_of_head("GET / HTTP/1.1\r\n"), std::nullopt);
  EXPECT_EQ(end_of_head("GET / HTTP/1.1\r\n\r\nbody"), 18U);
}

TEST(RequestTest, DecodesPercentEncoding) {
  EXPECT_EQ(percent_decoded("a%20b%2Fc%c3%a4"), "a b/c\xc3\xa4");
  EXPECT_EQ(percent_decoded("a+b"), "a+b");
  for (const char* wrong : {"%", "%2", "a%2", "%zz", "%2g"}) {
    EXPECT_EQ(percent_decoded(wrong), std::nullopt) << wrong;
  }
}

TEST(RequestTest, FindsArgumentsByFullName) {
  EXPECT_EQ(query_argument("by=stack&level=3", "level"), "3");
  EXPECT_EQ(query_argument("by=stack&level=3", "by"), "stack");
  EXPECT_EQ(query_argument("by=", "by"), "");
  EXPECT_EQ(query_argument("baby=1", "by"), std::nullopt);
  EXPECT_EQ(query_argument("by=1&by=2", "by"), std::nullopt) << "ambiguous";
}

}  // namespace
}  // namespace ashlar::http
