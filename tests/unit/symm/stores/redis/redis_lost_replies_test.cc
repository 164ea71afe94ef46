// SPDX-License-Identifier: Apache-2.0
//
// Tests lost replies from Redis: the store repeats the command, and no addition is applied twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#include "ashlar/redis_store.h"
#include "ashlar/unique_fd.h"
#include "base/mutex.h"
#include "unit/symm/stores/redis/redis_server.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Gt;
using ::testing::Le;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

UniqueFd unix_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// A proxy between a store and its server that drops one command or its reply. Forwards one
// connection at a time.
class LossyProxy {
 public:
  explicit LossyProxy(const std::string& server_path)
      : path_(folder_.path() + "/proxy"), server_(address_of(server_path)) {
    const sockaddr_un own = address_of(path_);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] {
      while (!is_ending_.load()) forward_connection();
    });
  }
  ~LossyProxy() {
    is_ending_.store(true);
    thread_.join();
  }
  LossyProxy(const LossyProxy&) = delete;
  LossyProxy& operator=(const LossyProxy&) = delete;

  const std::string& path() const { return path_; }
  enum class DropMode { kNothing, kCommand, kReply, kReplyKeepConnection };
  // Drops the next command that contains `keyword`, or its reply. Also closes the connection or,
  // with kReplyKeepConnection, drops all further replies on it.
  void drop_next(DropMode mode, const std::string& keyword) {
    MutexLock lock(mutex_);
    keyword_ = keyword;
    drop_mode_ = mode;
  }
  bool has_dropped() const {
    MutexLock lock(mutex_);
    return keyword_.empty();
  }

 private:
  // Returns whether data or the end of the stream can be read. Waits up to 2 ms.
  static bool is_readable(const UniqueFd& from) {
    pollfd wanted{from.get(), POLLIN, 0};
    return ::poll(&wanted, 1, 2) > 0;
  }
  static std::string read_from(const UniqueFd& from) {
    std::array<char, 4096> piece{};
    const ssize_t count = ::recv(from.get(), piece.data(), piece.size(), 0);
    return {piece.data(), count > 0 ? static_cast<size_t>(count) : 0};
  }
  static bool write_to(const UniqueFd& to, const std::string& bytes) {
    const ssize_t sent = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent == static_cast<ssize_t>(bytes.size()) && sent > 0;
  }

  void forward_connection() {
    if (!is_readable(listener_)) return;
    const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const UniqueFd server = unix_socket();
    const auto* address = reinterpret_cast<const sockaddr*>(&server_);
    if (::connect(server.get(), address, sizeof(server_)) != 0) return;
    DropMode mode = DropMode::kNothing;
    while (!is_ending_.load()) {
      if (is_readable(client)) {
        const std::string command = read_from(client);
        if (mode == DropMode::kNothing) mode = drop_mode_for(command);
        if (mode == DropMode::kCommand || !write_to(server, command)) return;
      }
      if (is_readable(server)) {
        const std::string reply = read_from(server);
        if (mode == DropMode::kReply) return;
        if (mode == DropMode::kNothing && !write_to(client, reply)) return;
      }
    }
  }
  DropMode drop_mode_for(const std::string& command) {
    MutexLock lock(mutex_);
    if (keyword_.empty() || command.find(keyword_) == std::string::npos) return DropMode::kNothing;
    keyword_.clear();
    return drop_mode_;
  }

  const TemporaryFolder folder_;
  const std::string path_;
  const sockaddr_un server_;
  const UniqueFd listener_ = unix_socket();
  std::atomic<bool> is_ending_{false};
  mutable Mutex mutex_;
  std::string keyword_ ASHLAR_GUARDED_BY(mutex_);  // empty: nothing to drop
  DropMode drop_mode_ ASHLAR_GUARDED_BY(mutex_) = DropMode::kNothing;
  std::thread thread_;
};

using DropMode = LossyProxy::DropMode;

class RedisLostRepliesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_installed()) {
      GTEST_SKIP() << "redis-server is not installed: run scripts/setup";
    }
    server_ = std::make_unique<RedisServer>();
    proxy_ = std::make_unique<LossyProxy>(server_->socket_path());
    RedisOptions options;
    options.unix_socket = proxy_->path();
    store_ = *try_open_redis_store(options, long_deadline());
  }
  // Returns the time to live of the only remaining receipt; -1 if there is none.
  int64_t receipt_ttl_seconds() const {
    const std::string cli = "redis-cli -s " + server_->socket_path();
    const std::string all = cli + " --scan --pattern 'ashlar/receipt/*' | xargs -r " + cli + " ttl";
    FILE* const output = ::popen(all.c_str(), "r");
    int64_t ttl = -1;
    if (std::fscanf(output, "%ld", &ttl) != 1) ttl = -1;
    ::pclose(output);
    return ttl;
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<LossyProxy> proxy_;
  std::shared_ptr<Store> store_;
};

TEST_F(RedisLostRepliesTest, AddsOnceWhenTheReplyIsLost) {
  ASSERT_EQ(*store_->add("count", 3, kNoExpiry, long_deadline()), 3);
  proxy_->drop_next(DropMode::kReply, "EVAL");
  EXPECT_EQ(*store_->add("count", 4, kNoExpiry, long_deadline()), 7);
  EXPECT_TRUE(proxy_->has_dropped());
  EXPECT_EQ(*store_->add("count", 0, kNoExpiry, long_deadline()), 7);
  EXPECT_EQ(receipt_ttl_seconds(), -1);
}

TEST_F(RedisLostRepliesTest, EraseReturnsFalseWhenTheReplyIsLost) {
  ASSERT_TRUE(store_->set("key", "1", kNoExpiry, long_deadline()).ok());
  proxy_->drop_next(DropMode::kReply, "DEL");
  EXPECT_FALSE(*store_->erase("key", long_deadline()));
  EXPECT_TRUE(proxy_->has_dropped());
}

TEST_F(RedisLostRepliesTest, AddDoesNotWaitForRemovalOfItsReceipt) {
  proxy_->drop_next(DropMode::kReplyKeepConnection, "DEL");
  const Deadline deadline = long_deadline();
  EXPECT_EQ(*store_->add("count", 3, kNoExpiry, deadline), 3);
  EXPECT_FALSE(deadline.has_passed());
  EXPECT_TRUE(proxy_->has_dropped());
}

TEST_F(RedisLostRepliesTest, ReceiptOutlivesRetriesOfItsAddition) {
  struct Row {
    Deadline deadline;
    seconds least;
    seconds most;
  };
  for (const Row& row : {Row{Deadline::after(seconds(30)), seconds(30), seconds(60)},
                         Row{Deadline::after(hours(2)), hours(1), hours(2)},
                         Row{Deadline::never(), hours(23), hours(24)}}) {
    proxy_->drop_next(DropMode::kCommand, "DEL");
    ASSERT_TRUE(store_->add("count", 1, kNoExpiry, row.deadline).ok());
    EXPECT_THAT(receipt_ttl_seconds(), AllOf(Gt(row.least.count()), Le(row.most.count())));
    server_->stop();  // loses all data
    server_->start();
  }
}

}  // namespace
}  // namespace ashlar::symm
