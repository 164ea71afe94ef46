// SPDX-License-Identifier: Apache-2.0
//
// A server that echoes requests, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/text.h"
#include "http/server.h"
#include "unit/http/socket_client.h"

namespace ashlar::http {

inline constexpr const char* kToken = "0123456789abcdef";

// A handler that responds with the path and query of a request or, if the request has a body, with
// the length of the body.
class Echo final : public Handler {
 public:
  Response handle(const Request& request) override {
    if (request.path == "throw") throw std::bad_alloc();
    if (request.path == "missing") return error_response(404, "a \"quoted\" reason");
    return {.code = 200, .type = "text/plain", .body = text(request.path, "|", request.query)};
  }
  uint64_t max_body_bytes(const Request& request) const override {
    return request.path == "open" ? 1'000'000 : 0;
  }
  Response handle(const Request& request, std::unique_ptr<ByteSource> body) override {
    if (request.query == "unread") return error_response(400, "not wanted");
    std::vector<char> buffer(1000);
    size_t total = 0;
    while (true) {
      const Result<size_t> got = body->read(buffer);
      if (!got.ok()) return error_response(400, got.status().message());
      if (*got == 0) break;
      total += *got;
    }
    return {.code = 200, .type = "text/plain", .body = text(total)};
  }
};

class ServerTest : public ::testing::Test {
 protected:
  void start(const ServerLimits& limits = {}) {
    Result<std::unique_ptr<Server>> started =
        Server::start(echo_, {.port = 0, .token = kToken, .limits = limits});
    ASSERT_TRUE(started.ok()) << started.status().message();
    server_ = *std::move(started);
  }
  void SetUp() override { start(); }

  std::string host() const { return text("127.0.0.1:", server_->port()); }
  // Returns a complete request.
  std::string request(const std::string& line, const std::string& fields = "") const {
    return line + " HTTP/1.1\r\nHost: " + host() + "\r\n" + fields + "\r\n";
  }
  // Sends bytes on a new connection and returns all bytes received.
  std::string exchange(const std::string& bytes) const {
    SocketClient client(server_->port());
    client.send(bytes);
    client.end_sending();
    return client.read_all();
  }
  std::string get(const std::string& path) const { return exchange(request("GET " + path)); }

  Echo echo_;
  std::unique_ptr<Server> server_;
};

}  // namespace ashlar::http
