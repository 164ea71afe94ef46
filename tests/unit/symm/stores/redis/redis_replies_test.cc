// SPDX-License-Identifier: Apache-2.0
//
// Servers that send replies which Redis never sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/redis_store.h"
#include "ashlar/unique_fd.h"
#include "base/mutex.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

// A server that sends a fixed reply to each command. Serves one connection at a time.
class StubServer {
 public:
  StubServer() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const auto* plain = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), plain, sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] {
      while (!is_ending_.load()) serve_connection();
    });
  }
  ~StubServer() {
    is_ending_.store(true);
    thread_.join();
  }
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;

  RedisOptions options() const {
    RedisOptions options;
    options.unix_socket = path_;
    return options;
  }
  void set_reply(const std::string& command, const std::string& reply) {
    MutexLock lock(mutex_);
    replies_[command] = reply + "\r\n";
  }

 private:
  static bool is_readable(const UniqueFd& from) {
    pollfd wanted{from.get(), POLLIN, 0};
    return ::poll(&wanted, 1, 2) > 0;
  }
  void serve_connection() {
    if (!is_readable(listener_)) return;
    const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    // A client that keeps an idle connection must not block other connections.
    while (!is_ending_.load() && !is_readable(listener_)) {
      if (!is_readable(client)) continue;
      std::array<char, 4096> bytes{};
      const ssize_t count = ::recv(client.get(), bytes.data(), bytes.size(), 0);
      if (count <= 0) return;
      const std::string reply = reply_to({bytes.data(), static_cast<size_t>(count)});
      (void)!::send(client.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
    }
  }
  // A command is an array of strings: "*1\r\n$4\r\nPING\r\n".
  std::string reply_to(const std::string& command) {
    const size_t begin = command.find("\r\n", command.find('$')) + 2;
    const std::string name = command.substr(begin, command.find("\r\n", begin) - begin);
    MutexLock lock(mutex_);
    return replies_[name];
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/socket";
  const UniqueFd listener_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::atomic<bool> is_ending_{false};
  Mutex mutex_;
  std::map<std::string, std::string> replies_ ASHLAR_GUARDED_BY(mutex_) = {{"PING", "+PONG\r\n"}};
  std::thread thread_;
};

class RedisRepliesTest : public ::testing::Test {
 protected:
  StubServer server_;
  std::shared_ptr<Store> store_ = *try_open_redis_store(server_.options(), long_deadline());
};

TEST_F(RedisRepliesTest, SetRequiresOk) {
  for (const char* reply : {"+QUEUED", "+", ":1", "$2\r\nOK", "$-1", "*0"}) {
    server_.set_reply("SET", reply);
    const Status set = store_->set("key", "1", kNoExpiry, long_deadline());
    EXPECT_EQ(set.kind(), StatusKind::kFormat) << reply;
    EXPECT_THAT(set.message(), HasSubstr("unexpected reply to SET"));
  }
  server_.set_reply("SET", "+OK");
  EXPECT_TRUE(store_->set("key", "1", kNoExpiry, long_deadline()).ok());
}

TEST_F(RedisRepliesTest, GetRequiresOneValuePerKey) {
  for (const char* reply : {"+OK", ":1", "$1\r\n1", "*0", "*2\r\n$-1\r\n$-1", "*1\r\n:1",
                            "*1\r\n+OK", "*1\r\n*1\r\n$1\r\n1", "*-1"}) {
    server_.set_reply("MGET", reply);
    EXPECT_EQ(store_->try_get(Keys{"key"}, long_deadline()).status().kind(), StatusKind::kFormat)
        << reply;
  }
  server_.set_reply("MGET", "*2\r\n$1\r\n7\r\n$-1");
  const auto found = store_->try_get(Keys{"key", "missing"}, long_deadline());
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ((*found)[0], "7");
  EXPECT_FALSE((*found)[1]);
}

TEST_F(RedisRepliesTest, GetRejectsHugeArrays) {
  server_.set_reply("MGET", "*4000000000");
  EXPECT_FALSE(store_->try_get(Keys{"key"}, Deadline::after(milliseconds(20))).ok());
}

TEST_F(RedisRepliesTest, AddRequiresDigits) {
  server_.set_reply("DEL", ":1");
  for (const char* reply : {"+5", ":5", "*0", "$-1", "$0\r\n", "$1\r\nx", "$3\r\n5 x"}) {
    server_.set_reply("EVAL", reply);
    EXPECT_EQ(store_->add("count", 1, kNoExpiry, long_deadline()).status().kind(),
              StatusKind::kFormat)
        << reply;
  }
  server_.set_reply("EVAL", "$1\r\n5");
  EXPECT_EQ(*store_->add("count", 1, kNoExpiry, long_deadline()), 5);
}

TEST_F(RedisRepliesTest, EraseRequiresZeroOrOne) {
  for (const char* reply : {"+OK", ":2", ":-1", "$1\r\n1", "*0", "$-1"}) {
    server_.set_reply("DEL", reply);
    EXPECT_EQ(store_->erase("key", long_deadline()).status().kind(), StatusKind::kFormat) << reply;
  }
  server_.set_reply("DEL", ":1");
  EXPECT_TRUE(*store_->erase("key", long_deadline()));
}

TEST_F(RedisRepliesTest, OpenRequiresPong) {
  server_.set_reply("PING", "+OK");
  const Status opened = try_open_redis_store(server_.options(), long_deadline()).status();
  EXPECT_EQ(opened.kind(), StatusKind::kFormat);
  EXPECT_THAT(opened.message(), HasSubstr("check that it is a Redis server"));
}

TEST_F(RedisRepliesTest, AuthenticationRequiresOk) {
  for (const char* command : {"AUTH", "SELECT"}) {
    server_.set_reply("AUTH", "+OK");
    server_.set_reply("SELECT", "+OK");
    server_.set_reply(command, ":1");
    RedisOptions options = server_.options();
    options.password = "open sesame";
    options.database = 3;
    const Status opened = try_open_redis_store(options, long_deadline()).status();
    EXPECT_EQ(opened.kind(), StatusKind::kDeviceFault);
    EXPECT_THAT(opened.message(), HasSubstr(std::string("unexpected reply to ") + command));
  }
}

}  // namespace
}  // namespace ashlar::symm
