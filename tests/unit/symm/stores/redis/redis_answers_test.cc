// SPDX-License-Identifier: Apache-2.0
//
// Answers of Redis that do not arrive: the store asks again, and nothing is added twice.
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
#include "unit/symm/stores/store_places.h"

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

// Between a store and its server: loses one command, or its answer. One connection at a time.
class LosingPath {
 public:
  explicit LosingPath(const std::string& server_path)
      : path_(folder_.path() + "/path"), server_(address_of(server_path)) {
    const sockaddr_un own = address_of(path_);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] {
      while (!is_ending_.load()) pass_on_a_connection();
    });
  }
  ~LosingPath() {
    is_ending_.store(true);
    thread_.join();
  }
  LosingPath(const LosingPath&) = delete;
  LosingPath& operator=(const LosingPath&) = delete;

  const std::string& path() const { return path_; }
  enum class Loss { kNothing, kCommand, kAnswer, kAnswerInSilence };
  // Of the next command that has this word in it. The connection breaks, except in silence.
  void lose(Loss loss, const std::string& word) {
    MutexLock lock(mutex_);
    word_ = word;
    loss_ = loss;
  }
  bool has_lost() const {
    MutexLock lock(mutex_);
    return word_.empty();
  }

 private:
  // Whether there is something to read, or an end.
  static bool has_news(const UniqueFd& from) {
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

  void pass_on_a_connection() {
    if (!has_news(listener_)) return;
    const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const UniqueFd server = unix_socket();
    const auto* address = reinterpret_cast<const sockaddr*>(&server_);
    if (::connect(server.get(), address, sizeof(server_)) != 0) return;
    Loss loss = Loss::kNothing;
    while (!is_ending_.load()) {
      if (has_news(client)) {
        const std::string command = read_from(client);
        if (loss == Loss::kNothing) loss = loss_of(command);
        if (loss == Loss::kCommand || !write_to(server, command)) return;
      }
      if (has_news(server)) {
        const std::string answer = read_from(server);
        if (loss == Loss::kAnswer) return;
        if (loss == Loss::kNothing && !write_to(client, answer)) return;
      }
    }
  }
  Loss loss_of(const std::string& command) {
    MutexLock lock(mutex_);
    if (word_.empty() || command.find(word_) == std::string::npos) return Loss::kNothing;
    word_.clear();
    return loss_;
  }

  const TemporaryFolder folder_;
  const std::string path_;
  const sockaddr_un server_;
  const UniqueFd listener_ = unix_socket();
  std::atomic<bool> is_ending_{false};
  mutable Mutex mutex_;
  std::string word_ ASHLAR_GUARDED_BY(mutex_);  // empty: it happened
  Loss loss_ ASHLAR_GUARDED_BY(mutex_) = Loss::kNothing;
  std::thread thread_;
};

using Loss = LosingPath::Loss;

class RedisAnswersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_installed()) {
      GTEST_SKIP() << "redis-server is not installed: run scripts/setup";
    }
    server_ = std::make_unique<RedisServer>();
    path_ = std::make_unique<LosingPath>(server_->socket_path());
    RedisOptions options;
    options.unix_socket = path_->path();
    store_ = *try_open_redis_store(options, patience());
  }
  // How long the one receipt that is left may live; -1: there is none.
  int64_t seconds_of_the_receipt() const {
    const std::string ask = "redis-cli -s " + server_->socket_path();
    const std::string all = ask + " --scan --pattern 'ashlar/receipt/*' | xargs -r " + ask + " ttl";
    FILE* const answer = ::popen(all.c_str(), "r");
    int64_t life = -1;
    if (std::fscanf(answer, "%ld", &life) != 1) life = -1;
    ::pclose(answer);
    return life;
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<LosingPath> path_;
  std::shared_ptr<Store> store_;
};

TEST_F(RedisAnswersTest, AnAdditionWhoseAnswerWasLostIsNotMadeTwice) {
  ASSERT_EQ(*store_->add("count", 3, kNoEnd, patience()), 3);
  path_->lose(Loss::kAnswer, "EVAL");
  EXPECT_EQ(*store_->add("count", 4, kNoEnd, patience()), 7);
  EXPECT_TRUE(path_->has_lost());
  EXPECT_EQ(*store_->add("count", 0, kNoEnd, patience()), 7);
  EXPECT_EQ(seconds_of_the_receipt(), -1);
}

TEST_F(RedisAnswersTest, AnErasureWhoseAnswerWasLostSaysThatNothingWasThere) {
  ASSERT_TRUE(store_->set("key", "1", kNoEnd, patience()).ok());
  path_->lose(Loss::kAnswer, "DEL");
  EXPECT_FALSE(*store_->erase("key", patience()));
  EXPECT_TRUE(path_->has_lost());
}

TEST_F(RedisAnswersTest, NobodyWaitsUntilTheDeadlineForAReceiptToGo) {
  path_->lose(Loss::kAnswerInSilence, "DEL");
  const Deadline deadline = patience();
  EXPECT_EQ(*store_->add("count", 3, kNoEnd, deadline), 3);
  EXPECT_FALSE(deadline.has_passed());
  EXPECT_TRUE(path_->has_lost());
}

TEST_F(RedisAnswersTest, AReceiptLivesAsLongAsItsAdditionMayBeAskedForAgain) {
  struct Row {
    Deadline deadline;
    seconds least;
    seconds most;
  };
  for (const Row& row : {Row{Deadline::after(seconds(30)), seconds(30), seconds(60)},
                         Row{Deadline::after(hours(2)), hours(1), hours(2)},
                         Row{Deadline::never(), hours(23), hours(24)}}) {
    path_->lose(Loss::kCommand, "DEL");
    ASSERT_TRUE(store_->add("count", 1, kNoEnd, row.deadline).ok());
    EXPECT_THAT(seconds_of_the_receipt(), AllOf(Gt(row.least.count()), Le(row.most.count())));
    server_->stop();  // which forgets it
    server_->start();
  }
}

}  // namespace
}  // namespace ashlar::symm
