// SPDX-License-Identifier: Apache-2.0
//
// Tests the Redis store: unreachable, restarted and unresponsive servers, authentication,
// databases.
#include "ashlar/redis_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "mp/child_process.h"
#include "unit/symm/stores/redis/redis_server.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

class RedisStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_installed()) {
      GTEST_SKIP() << "redis-server is not installed: run scripts/setup";
    }
    server_ = std::make_unique<RedisServer>();
    store_ = open();
  }
  RedisOptions options() const {
    RedisOptions options;
    options.unix_socket = server_->socket_path();
    return options;
  }
  std::shared_ptr<Store> open() const { return *try_open_redis_store(options(), long_deadline()); }

  std::unique_ptr<RedisServer> server_;
  std::shared_ptr<Store> store_;
};

// On a shared connection, parent and child would read each other's replies.
TEST_F(RedisStoreTest, ForkedChildOpensItsOwnConnection) {
  const auto count_up = [this](const std::string& key) {
    for (int64_t i = 1; i <= 300; ++i) {
      const Result<int64_t> sum = store_->add(key, 1, kNoExpiry, long_deadline());
      if (!sum.ok() || *sum != i) return 1;
    }
    return 0;
  };
  ASSERT_TRUE(
      store_->set("key", "value", kNoExpiry, long_deadline()).ok());  // opens the connection
  ChildProcess child([&](int) { return count_up("child"); });
  EXPECT_EQ(count_up("parent"), 0);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(RedisStoreTest, WaitSurvivesAServerRestart) {
  ChildProcess waiter([this](int socket_fd) {
    const std::shared_ptr<Store> store = open();
    if (!store->set("waiting", "1", kNoExpiry, long_deadline()).ok() || !notify(socket_fd))
      return 1;
    const Result<std::string> got = store->get("key", long_deadline());
    return got.ok() && *got == "after" ? 0 : 2;
  });
  ASSERT_TRUE(wait_for_notification(waiter.socket_fd()));
  server_->stop();
  server_->start();
  EXPECT_TRUE(
      store_->set("key", "after", kNoExpiry, long_deadline()).ok());  // on a broken connection
  EXPECT_EQ(waiter.wait(), 0);
}

TEST_F(RedisStoreTest, CallsSurviveAServerRestart) {
  server_->stop();
  server_->start();
  EXPECT_EQ(*store_->add("count", 3, kNoExpiry, long_deadline()), 3);
  server_->stop();
  server_->start();
  EXPECT_FALSE(*store_->erase("count", long_deadline()));
}

TEST_F(RedisStoreTest, TimeoutReportsAnUnreachableServer) {
  server_->stop();
  const Status timeout_status =
      store_->set("key", "1", kNoExpiry, Deadline::after(milliseconds(50)));
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("was not reached before the deadline"));
}

TEST_F(RedisStoreTest, TimesOutOnASuspendedServer) {
  server_->suspend();
  const Status timeout_status =
      store_->set("key", "1", kNoExpiry, Deadline::after(milliseconds(50)));
  server_->resume();
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
}

TEST_F(RedisStoreTest, AddRemovesItsReceipt) {
  ASSERT_TRUE(store_->add("count", 1, kNoExpiry, long_deadline()).ok());
  ASSERT_TRUE(*store_->erase("count", long_deadline()));
  const int exit_status =
      std::system(("test \"$(redis-cli -s " + server_->socket_path() + " dbsize)\" = 0").c_str());
  EXPECT_EQ(exit_status, 0);
}

TEST_F(RedisStoreTest, SeparatesDatabases) {
  RedisOptions other = options();
  other.database = 3;
  const std::shared_ptr<Store> third = *try_open_redis_store(other, long_deadline());
  ASSERT_TRUE(third->set("key", "3", kNoExpiry, long_deadline()).ok());
  EXPECT_FALSE((*store_->try_get(Keys{"key"}, long_deadline()))[0]);
}

TEST_F(RedisStoreTest, ReportsARejectedPasswordImmediately) {
  RedisOptions wrong = options();
  wrong.password = "none was set";
  const Status refused = try_open_redis_store(wrong, Deadline::never()).status();
  EXPECT_EQ(refused.kind(), StatusKind::kDeviceFault);
  EXPECT_THAT(refused.message(), HasSubstr("refused"));
}

TEST_F(RedisStoreTest, RejectsListsAsValues) {
  const int pushed =
      std::system(("redis-cli -s " + server_->socket_path() + " rpush list 1 > /dev/null").c_str());
  ASSERT_EQ(pushed, 0);
  EXPECT_FALSE((*store_->try_get(Keys{"list"}, long_deadline()))[0]);
  EXPECT_FALSE(store_->add("list", 1, kNoExpiry, long_deadline()).ok());
}

TEST_F(RedisStoreTest, ConnectsByHostPortAndPassword) {
  RedisOptions options;
  options.port = RedisServer::free_port();
  options.password = "open sesame";
  const RedisServer server({options.port, options.password});
  const Result<std::shared_ptr<Store>> store = try_open_redis_store(options, long_deadline());
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  EXPECT_TRUE((*store)->set("key", "1", kNoExpiry, long_deadline()).ok());
  EXPECT_EQ(*(*store)->get("key", long_deadline()), "1");

  options.password = "open barley";
  EXPECT_EQ(try_open_redis_store(options, long_deadline()).status().kind(),
            StatusKind::kDeviceFault);
}

TEST_F(RedisStoreTest, ErrorNamesUnreachableHostAndPort) {
  RedisOptions nowhere;
  nowhere.port = 1;
  const Status timeout_status =
      try_open_redis_store(nowhere, Deadline::after(milliseconds(20))).status();
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("Redis at 127.0.0.1:1"));
}

}  // namespace
}  // namespace ashlar::symm
