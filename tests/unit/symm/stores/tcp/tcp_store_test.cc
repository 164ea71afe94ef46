// SPDX-License-Identifier: Apache-2.0
//
// Tests the TCP store and its server over loopback: tokens, broken connections, waits, hostile
// clients. The contract of stores is tested in store_test.cc.
#include "ashlar/tcp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>

#include "contract/waiting.h"
#include "symm/stores/tcp/store_message.h"
#include "symm/stores/tcp/tcp_server.h"
#include "symm/stores/tcp/tcp_socket.h"
#include "unit/symm/deadlines.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;
using Keys = std::vector<std::string>;

const std::string kTestToken = "the-token-of-this-test";

class TcpStoreTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<Store>> open(const std::string& token = kTestToken) {
    return try_open_tcp_store({.port = server_->port(), .token = token}, long_deadline());
  }
  // Returns a connection that has sent nothing.
  UniqueFd connect() { return *connect_tcp({"127.0.0.1", server_->port()}, long_deadline()); }
  UniqueFd connect_and_authenticate() {
    UniqueFd socket = connect();
    send(socket, serialize({.call = StoreCall::kHello, .token = kTestToken}));
    EXPECT_TRUE(receive(socket).ok());
    return socket;
  }
  static void send(const UniqueFd& socket, std::string_view bytes) {
    EXPECT_TRUE(send_all(socket.get(), bytes, long_deadline()).ok());
  }
  static Result<StoreResponse> receive(const UniqueFd& socket) {
    const Result<std::string> body =
        receive_frame(socket.get(), kMaxResponseBytes, long_deadline());
    if (!body.ok()) return body.status();
    return parse_response(*body);
  }
  // Returns whether the server closes the connection. A timeout counts as no.
  static bool is_closed(const UniqueFd& socket) {
    return receive_frame(socket.get(), kMaxResponseBytes, long_deadline())
        .status()
        .is(StatusKind::kDeviceFault);
  }
  void expect_works() {
    const auto store = open();
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    EXPECT_TRUE((*store)->set("works", "1", kNoExpiry, long_deadline()).ok());
  }

  std::shared_ptr<TcpStoreServer> server_ = start_tcp_store_server({.token = kTestToken});
};

TEST_F(TcpStoreTest, RejectsAWrongToken) {
  const auto store = open("another-token-of-16");
  EXPECT_EQ(store.status().kind(), StatusKind::kDeviceFault);
  EXPECT_THAT(store.status().message(), HasSubstr("the token is wrong"));
  EXPECT_THAT(store.status().message(), Not(HasSubstr(kTestToken)));
}

TEST_F(TcpStoreTest, RejectsInvalidTokens) {
  for (const std::string& token :
       Keys{"", "short", "sixteen chars or more", std::string(257, 'x')}) {
    EXPECT_EQ(open(token).status().kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(try_start_tcp_store_server({.token = token}).status().kind(),
              StatusKind::kInvalidArgument);
  }
}

TEST_F(TcpStoreTest, ReportsAnAddressInUse) {
  const auto second = try_start_tcp_store_server({.port = server_->port(), .token = kTestToken});
  EXPECT_EQ(second.status().kind(), StatusKind::kDeviceFault);
  EXPECT_THAT(second.status().message(), HasSubstr("127.0.0.1"));
}

TEST_F(TcpStoreTest, ListensOnLoopbackOnly) {
  // 127.0.0.2 is another address of this machine.
  EXPECT_FALSE(connect_tcp({"127.0.0.2", server_->port()}, long_deadline()).ok());
}

TEST_F(TcpStoreTest, WaitsForTheServerToStart) {
  const uint16_t port = server_->port();
  server_.reset();
  auto opening = std::async(std::launch::async, [port] {
    return try_open_tcp_store({.port = port, .token = kTestToken}, long_deadline());
  });
  server_ = start_tcp_store_server({.port = port, .token = kTestToken});
  EXPECT_TRUE(opening.get().ok());
}

TEST_F(TcpStoreTest, TimesOutWithoutAServer) {
  const uint16_t port = server_->port();
  server_.reset();
  const auto store = try_open_tcp_store({.port = port, .token = kTestToken}, short_deadline());
  EXPECT_EQ(store.status().kind(), StatusKind::kTimeout);
  EXPECT_THAT(store.status().message(), HasSubstr("127.0.0.1:"));
}

TEST_F(TcpStoreTest, ReconnectsToARestartedServer) {
  const std::shared_ptr<Store> store = *open();
  const uint16_t port = server_->port();
  server_.reset();
  server_ = start_tcp_store_server({.port = port, .token = kTestToken});
  EXPECT_TRUE(store->set("key", "1", kNoExpiry, long_deadline()).ok());
  EXPECT_EQ(*store->add("count", 2, kNoExpiry, long_deadline()), 2);
}

TEST_F(TcpStoreTest, ReadsMoreKeysThanFitOneRequest) {
  const std::shared_ptr<Store> store = *open();
  const std::string large(Store::kMaxValueBytes * 2 / 3, 'x');
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_TRUE(store->set(key, large, kNoExpiry, long_deadline()).ok());
  }
  Keys keys(2 * kMaxRequestKeys + 1, "missing");
  keys.insert(keys.end(), {"a", "b", "c"});
  const auto found = store->try_get(keys, long_deadline());
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_EQ(found->size(), keys.size());
  EXPECT_EQ(found->front(), std::nullopt);
  EXPECT_EQ(found->back(), large);
}

TEST_F(TcpStoreTest, FullServerRejectsWrites) {
  server_ = start_tcp_store_server({.token = kTestToken, .max_bytes = 1000});
  const std::shared_ptr<Store> store = *open();
  EXPECT_TRUE(
      store->set("key", std::string(1000, 'x'), kNoExpiry, long_deadline()).is_out_of_memory());
  EXPECT_TRUE(store->set("key", "1", kNoExpiry, long_deadline()).ok());
}

TEST_F(TcpStoreTest, WritesEndWaits) {
  const UniqueFd socket = connect_and_authenticate();
  send(socket, serialize({.call = StoreCall::kTryGet, .keys = {"key"}}));
  StoreRequest wait{.call = StoreCall::kWait};
  wait.version = static_cast<uint64_t>(receive(socket)->number);
  wait.wait_ms = 3'600'000;
  send(socket, serialize(wait));
  ASSERT_TRUE((*open())->set("key", "1", kNoExpiry, long_deadline()).ok());
  EXPECT_TRUE(receive(socket).ok());
}

TEST_F(TcpStoreTest, WaitsExpire) {
  const UniqueFd socket = connect_and_authenticate();
  send(socket, serialize({.call = StoreCall::kTryGet, .keys = {"key"}}));
  StoreRequest wait{.call = StoreCall::kWait};
  wait.version = static_cast<uint64_t>(receive(socket)->number);
  wait.wait_ms = 1;
  send(socket, serialize(wait));
  EXPECT_TRUE(receive(socket).ok());
}

// Hostile clients.

TEST_F(TcpStoreTest, DisconnectsClientsWithMalformedMessages) {
  const std::string get = serialize({.call = StoreCall::kTryGet, .keys = {"key"}});
  const std::string hello = serialize({.call = StoreCall::kHello, .token = kTestToken});
  const std::vector<std::string> unauthenticated_messages = {
      "GET / HTTP/1.1\r\n\r\n",
      get,                                                     // no hello
      std::string("\xff\xff\xff\xff"),                         // a size of 4 GiB
      std::string(4, '\0'),                                    // an empty body
      hello + get,                                             // does not wait for the response
      std::string("\x01\x02\0\0", 4) + std::string(513, 'x'),  // larger than a hello
  };
  for (const std::string& bytes : unauthenticated_messages) {
    const UniqueFd socket = connect();
    send(socket, bytes);
    EXPECT_TRUE(is_closed(socket)) << bytes;
  }
  const std::vector<std::string> authenticated_messages = {
      hello,
      std::string("\xff\xff\xff\xff"),
      std::string("\x01\0\0\0\x09", 5),  // an unknown call
      get + get,
      serialize({.call = StoreCall::kErase, .keys = {"a b"}}),
  };
  for (const std::string& bytes : authenticated_messages) {
    const UniqueFd socket = connect_and_authenticate();
    send(socket, bytes);
    EXPECT_TRUE(is_closed(socket)) << bytes;
  }
  expect_works();
}

TEST_F(TcpStoreTest, SurvivesClientsThatDisconnectAnywhere) {
  const std::string hello = serialize({.call = StoreCall::kHello, .token = kTestToken});
  for (size_t bytes = 0; bytes < hello.size(); bytes += 3) {
    send(connect(), std::string_view(hello).substr(0, bytes));
  }
  StoreRequest set{.call = StoreCall::kSet, .keys = {"key"}, .value = std::string(100'000, 'x')};
  send(connect_and_authenticate(), serialize(set).substr(0, 70'000));
  send(connect_and_authenticate(), serialize(set));
  StoreRequest wait{.call = StoreCall::kWait};
  wait.wait_ms = 60'000;
  send(connect_and_authenticate(), serialize(wait));
  expect_works();
  EXPECT_TRUE(server_->wait_for_disconnects(0, long_deadline()));
}

TEST_F(TcpStoreTest, UnauthenticatedConnectionsDoNotBlockClients) {
  std::vector<UniqueFd> unauthenticated;
  for (size_t i = 0; i < 2 * TcpServer::kMaxUnauthenticated; ++i)
    unauthenticated.push_back(connect());
  expect_works();
  EXPECT_TRUE(is_closed(unauthenticated.front()));  // the oldest was closed
}

TEST_F(TcpStoreTest, BoundsTheNumberOfConnections) {
  server_ = start_tcp_store_server({.token = kTestToken, .max_connections = 2});
  const UniqueFd first = connect_and_authenticate();
  const UniqueFd second = connect_and_authenticate();
  EXPECT_TRUE(is_closed(connect()));
  send(first, serialize({.call = StoreCall::kErase, .keys = {"key"}}));
  EXPECT_TRUE(receive(first).ok());
}

TEST_F(TcpStoreTest, DisconnectsClientsThatDoNotReadResponses) {
  ASSERT_TRUE((*open())
                  ->set("key", std::string(Store::kMaxValueBytes, 'x'), kNoExpiry, long_deadline())
                  .ok());
  // The server buffers each response until the client reads it. The total size of the buffers is
  // bounded.
  std::vector<UniqueFd> sockets;
  const size_t count = TcpServer::kMaxBufferBytes / Store::kMaxValueBytes + 1;
  for (size_t i = 0; i < count; ++i) {
    sockets.push_back(connect_and_authenticate());
    send(sockets.back(), serialize({.call = StoreCall::kTryGet, .keys = {"key"}}));
  }
  EXPECT_TRUE(server_->wait_for_disconnects(count - 1, long_deadline()));
  sockets.clear();
  expect_works();
}

// Hosted stores.

TEST(HostedTcpStore, WaitsForItsClients) {
  HostedStore host = host_tcp_store({.token = kTestToken}, std::chrono::hours(1));
  std::shared_ptr<Store> client =
      open_tcp_store({.port = host.port, .token = kTestToken}, long_deadline());
  auto ending = std::async(std::launch::async, [&host] { host.store.reset(); });
  EXPECT_TRUE(client->set("key", "1", kNoExpiry, long_deadline()).ok());
  EXPECT_TRUE(contract::consistently([&ending] {
    return ending.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  }));
  client.reset();
  ending.get();
}

TEST(HostedTcpStore, TokensAreRandomAndValid) {
  const std::string token = new_store_token();
  EXPECT_TRUE(is_valid_token(token));
  EXPECT_NE(token, new_store_token());
}

}  // namespace
}  // namespace ashlar::symm
