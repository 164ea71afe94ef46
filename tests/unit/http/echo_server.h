// SPDX-License-Identifier: Apache-2.0
//
// A server that says what it was asked, for tests that ask it.
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

// Says what it was asked, and how long the body was.
class Echo final : public Handler {
 public:
  Answer answer(const Question& question) override {
    if (question.path == "throw") throw std::bad_alloc();
    if (question.path == "missing") return refusal(404, "a \"quoted\" reason");
    return {.code = 200, .type = "text/plain", .body = text(question.path, "|", question.query)};
  }
  uint64_t most_body_bytes(const Question& question) const override {
    return question.path == "open" ? 1'000'000 : 0;
  }
  Answer answer(const Question& question, std::unique_ptr<ByteSource> body) override {
    if (question.query == "unread") return refusal(400, "not wanted");
    std::vector<char> buffer(1000);
    size_t total = 0;
    while (true) {
      const Result<size_t> got = body->read(buffer);
      if (!got.ok()) return refusal(400, got.status().message());
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
  // A whole request.
  std::string request(const std::string& line, const std::string& fields = "") const {
    return line + " HTTP/1.1\r\nHost: " + host() + "\r\n" + fields + "\r\n";
  }
  // Sent alone; everything that comes back.
  std::string ask(const std::string& bytes) const {
    SocketClient client(server_->port());
    client.send(bytes);
    client.end_sending();
    return client.read_all();
  }
  std::string get(const std::string& path) const { return ask(request("GET " + path)); }

  Echo echo_;
  std::unique_ptr<Server> server_;
};

}  // namespace ashlar::http
