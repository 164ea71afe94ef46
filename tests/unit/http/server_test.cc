// SPDX-License-Identifier: Apache-2.0
//
// Tests of the server over real sockets.
#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/fd_passing.h"
#include "base/text.h"
#include "http/client.h"
#include "http/tokens.h"
#include "mp/child_process.h"
#include "unit/http/echo_server.h"
#include "unit/http/socket_client.h"

namespace ashlar::http {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using HttpServerTest = ServerTest;

TEST_F(HttpServerTest, ServesClientsWithToken) {
  const std::string response = get("/0123456789abcdef/d/0/tile?level=1");
  EXPECT_EQ(code_of(response), 200);
  EXPECT_EQ(body_of(response), "d/0/tile|level=1");
  EXPECT_THAT(response,
              AllOf(HasSubstr("Content-Type: text/plain\r\n"), HasSubstr("Content-Length: 16\r\n"),
                    HasSubstr("Cache-Control: no-store\r\n"),
                    HasSubstr("X-Content-Type-Options: nosniff\r\n"),
                    HasSubstr("Referrer-Policy: no-referrer\r\n"),
                    HasSubstr("Content-Security-Policy: default-src 'none';")));
  EXPECT_EQ(server_->url(), "http://" + host() + "/0123456789abcdef/");
}

TEST_F(HttpServerTest, RejectsClientsWithoutToken) {
  for (const char* path : {"/", "/0123456789abcdef", "/metrics", "/favicon.ico"}) {
    const std::string response = get(path);
    EXPECT_EQ(code_of(response), 401) << path;
    EXPECT_THAT(response, HasSubstr("WWW-Authenticate: Bearer realm=\"ashlar\"\r\n"));
    EXPECT_THAT(body_of(response), HasSubstr("a token is required"));
  }
}

TEST_F(HttpServerTest, RejectsClientsWithWrongToken) {
  for (const char* path : {"/0123456789abcdee/", "/0123456789abcde/", "/0123456789abcdef0/",
                           "//0123456789abcdef/", "/etc/passwd", "/%30123456789abcdef/"}) {
    EXPECT_EQ(code_of(get(path)), 403) << path;
    EXPECT_THAT(body_of(get(path)), HasSubstr("the token is wrong")) << path;
  }
  const auto code_with = [&](const std::string& field) {
    return code_of(exchange(request("GET /first", "Authorization: " + field + "\r\n")));
  };
  EXPECT_EQ(code_with("Bearer 0123456789abcdef"), 200);
  EXPECT_EQ(code_with("Bearer 0123456789abcdee"), 403);
  EXPECT_EQ(code_with("Bearer"), 401);
  EXPECT_EQ(code_with("Basic 0123456789abcdef"), 401) << "only Bearer is supported";
}

TEST_F(HttpServerTest, RejectsForeignHostNames) {
  const auto code_for = [&](const std::string& host) {
    return code_of(exchange("GET /0123456789abcdef/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n"));
  };
  EXPECT_EQ(code_for(text("localhost:", server_->port())), 200);
  EXPECT_EQ(code_for(text("evil.example:", server_->port())), 421);
  EXPECT_EQ(code_for("127.0.0.1"), 421);
  EXPECT_EQ(code_for("127.0.0.1:1"), 421);
}

TEST_F(HttpServerTest, RespondsToMalformedRequests) {
  struct Row {
    std::string bytes;
    int code;
  };
  const Row rows[] = {
      {"nonsense\r\n\r\n", 400},
      {std::string(4, '\0') + "\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {request("DELETE /0123456789abcdef/"), 405},
      {request("POST /0123456789abcdef/d/0/tile", "Content-Length: 1\r\n"), 405},
      {request("POST /0123456789abcdef/open"), 411},
      {request("POST /0123456789abcdef/open", "Content-Length: 1000001\r\n"), 413},
      {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505},
      {"GET /" + std::string(2 * kMaxHeadBytes, 'a'), 431},
      {"GET /0123456789abcdef/../../etc/passwd HTTP/1.0\r\n\r\n", 505},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(code_of(exchange(row.bytes)), row.code) << row.bytes.substr(0, 60);
  }
  EXPECT_EQ(code_of(get("/0123456789abcdef/still/there")), 200);
}

TEST_F(HttpServerTest, ServesManyRequestsPerConnection) {
  SocketClient client(server_->port());
  const std::string first = request("GET /0123456789abcdef/first");
  const std::string second = request("GET /0123456789abcdef/second");
  client.send(first + second.substr(0, 10));  // the next request may begin in the same packet
  EXPECT_EQ(body_of(client.read_response()), "first|");
  client.send(second.substr(10));
  EXPECT_EQ(body_of(client.read_response()), "second|");
  client.send(request("GET /0123456789abcdef/missing"));
  EXPECT_EQ(body_of(client.read_response()), "{\"error\": \"a \\\"quoted\\\" reason\"}\n");
  client.send(request("GET /0123456789abcdef/last", "Connection: close\r\n"));
  EXPECT_EQ(body_of(client.read_all()), "last|");
}

TEST_F(HttpServerTest, StreamsRequestBodies) {
  const std::string body(300'000, 'x');
  const std::string head = request("POST /0123456789abcdef/open", "Content-Length: 300000\r\n");
  EXPECT_EQ(body_of(exchange(head + body)), "300000");
  EXPECT_THAT(body_of(exchange(head + body.substr(1))), HasSubstr("ends early: 1 B are missing"));
  SocketClient waiting_client(server_->port());
  waiting_client.send(
      request("POST /0123456789abcdef/open", "Content-Length: 3\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(code_of(waiting_client.read_response()), 100);
  waiting_client.send("abc");
  EXPECT_EQ(body_of(waiting_client.read_all()), "3");
}

TEST_F(HttpServerTest, RespondsWithoutReadingTheBody) {
  const std::string head =
      request("POST /0123456789abcdef/open?unread", "Content-Length: 900000\r\n");
  EXPECT_EQ(code_of(exchange(head + std::string(900'000, 'x'))), 400);
}

TEST_F(HttpServerTest, TimesOutIncompleteRequests) {
  start({.timeout = milliseconds(500)});  // the client must send before the timeout
  SocketClient client(server_->port());
  client.send("GET / HT");
  EXPECT_EQ(code_of(client.read_all()), 408);
  SocketClient silent(server_->port());
  EXPECT_EQ(silent.read_all(), "") << "no response without a request";
}

TEST_F(HttpServerTest, LimitsConnections) {
  start({.max_connections = 1});
  SocketClient first(server_->port());
  first.send(request("GET /0123456789abcdef/a"));
  EXPECT_EQ(code_of(first.read_response()), 200);
  EXPECT_EQ(code_of(SocketClient(server_->port()).read_all()), 503);
}

TEST_F(HttpServerTest, HandlerExceptionClosesOnlyItsConnection) {
  start({.max_connections = 1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(get("/0123456789abcdef/throw"), "");
  EXPECT_EQ(code_of(get("/0123456789abcdef/still/there")), 200);
}

TEST_F(HttpServerTest, EvictsUnauthenticatedConnections) {
  start({.max_connections = 2});
  SocketClient silent(server_->port());
  SocketClient slow(server_->port());
  slow.send("GET /");
  SocketClient known(server_->port());
  known.send(request("GET /0123456789abcdef/a"));
  EXPECT_EQ(code_of(known.read_response()), 200);
  SocketClient second(server_->port());
  second.send(request("GET /0123456789abcdef/b"));
  EXPECT_EQ(code_of(second.read_response()), 200);
  EXPECT_EQ(code_of(SocketClient(server_->port()).read_all()), 503)
      << "the connection limit is reached";
}

TEST_F(HttpServerTest, ReportsPortInUse) {
  const auto second = Server::start(echo_, {.port = server_->port(), .token = kToken});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(),
              HasSubstr(text("cannot bind port ", server_->port(), " of 127.0.0.1")));
}

using HttpServerConcurrencyTest = ServerTest;

TEST_F(HttpServerConcurrencyTest, StopsWhileManyClientsAreServed) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      SocketClient client(server_->port());
      for (int k = 0; k < 20; ++k) {
        client.send(request(text("GET /0123456789abcdef/", i, "/", k)));
        EXPECT_EQ(body_of(client.read_response()), text(i, "/", k, "|"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  SocketClient open(server_->port());
  server_.reset();
  EXPECT_EQ(open.read_all(), "");
}

TEST(TokenTest, GeneratesUniqueTokens) {
  const Result<std::string> first = generate_token();
  const Result<std::string> second = generate_token();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(first->size(), 32U);
  EXPECT_EQ(first->find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(TokenTest, ComparesTokens) {
  EXPECT_TRUE(tokens_equal("abcd", "abcd"));
  for (const char* other : {"abce", "bbcd", "abc", "abcde", ""}) {
    EXPECT_FALSE(tokens_equal(other, "abcd")) << other;
  }
}

// --- Unix sockets

class HttpLocalServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.local_name = text("ashlar-http-test.", ::getpid());
    name_ = options.local_name;
    Result<std::unique_ptr<Server>> started = Server::start(echo_, std::move(options));
    ASSERT_TRUE(started.ok()) << started.status().message();
    server_ = *std::move(started);
  }
  Result<ClientResponse> get(std::string_view target) const {
    Result<UniqueFd> socket =
        connect_abstract(name_, milliseconds(10'000), LocalSocketType::kStream);
    if (!socket.ok()) return socket.status();
    return Client(*std::move(socket)).get(target);
  }

  std::string name_;
  Echo echo_;
  std::unique_ptr<Server> server_;
};

TEST_F(HttpLocalServerTest, SameUserNeedsNoToken) {
  const Result<ClientResponse> reply = get("/d/0?a=b");
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_EQ(reply->code, 200);
  EXPECT_EQ(reply->body, "d/0|a=b");
  EXPECT_EQ(server_->port(), 0);
  EXPECT_EQ(server_->url(), "");
}

TEST_F(HttpLocalServerTest, ServesRepeatedRequests) {
  Client client(*connect_abstract(name_, milliseconds(10'000), LocalSocketType::kStream));
  EXPECT_EQ(client.get("/one")->body, "one|");
  EXPECT_EQ(client.get("/missing")->code, 404);
  EXPECT_EQ(client.get("/three")->body, "three|");
}

TEST_F(HttpLocalServerTest, RejectsOversizedResponse) {
  Client client(*connect_abstract(name_, milliseconds(10'000), LocalSocketType::kStream));
  ClientLimits limits;
  limits.max_body_bytes = 4;
  EXPECT_EQ(client.get("/hello", limits).status().kind(), StatusKind::kFormat);
}

TEST_F(HttpLocalServerTest, RejectsOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can become another user";
  ChildProcess other_user([&](int) {
    if (::setuid(65534) != 0) return 1;
    const Result<ClientResponse> reply = get("/secret");
    if (!reply.ok()) return 2;
    return reply->code == 403 && reply->body.find("secret") == std::string::npos ? 0 : 3;
  });
  EXPECT_EQ(other_user.wait(), 0);
}

TEST_F(HttpLocalServerTest, LimitsTotalResponseTime) {
  const UniqueFd listening = *listen_abstract(name_ + ".slow", LocalSocketType::kStream);
  std::thread slow([&] {
    const UniqueFd socket = *accept_pending(listening.get());
    std::string_view next = "HTTP/1.1 200 OK\r\nContent-Length: 16000000\r\n\r\n";
    while (::send(socket.get(), next.data(), next.size(), MSG_NOSIGNAL) > 0) {
      next = "a";
      ::usleep(1000);
    }
  });
  {
    Client client(
        *connect_abstract(name_ + ".slow", milliseconds(10'000), LocalSocketType::kStream));
    ClientLimits limits;
    limits.total_timeout = milliseconds(100);
    EXPECT_EQ(client.get("/", limits).status().kind(), StatusKind::kTimeout);
  }
  slow.join();
}

TEST_F(HttpLocalServerTest, TimesOutSilentServer) {
  const UniqueFd silent = *listen_abstract(name_ + ".silent", LocalSocketType::kStream);
  Client client(
      *connect_abstract(name_ + ".silent", milliseconds(10'000), LocalSocketType::kStream));
  ClientLimits limits;
  limits.timeout = milliseconds(20);
  EXPECT_EQ(client.get("/", limits).status().kind(), StatusKind::kTimeout);
}

}  // namespace
}  // namespace ashlar::http
