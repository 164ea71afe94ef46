// SPDX-License-Identifier: Apache-2.0
//
// Tests the contract of `Store` for every implementation: single-threaded, with threads, and with
// processes.
#include "ashlar/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <thread>

#include "contract/waiting.h"
#include "mp/child_process.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;
using Keys = std::vector<std::string>;

class StoreContract : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    fixture_ = GetParam().make();
    if (fixture_ == nullptr) GTEST_SKIP() << "redis-server is not installed: run scripts/setup";
    store_ = fixture_->open();
  }
  bool exists(const std::string& key) {
    const auto found = store_->try_get(Keys{key}, long_deadline());
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    return found.ok() && found->front().has_value();
  }
  bool set(const std::string& key, const std::string& value) {
    const Status done = store_->set(key, value, kNoExpiry, long_deadline());
    EXPECT_TRUE(done.ok()) << done.to_string();
    return done.ok();
  }

  std::unique_ptr<StoreFixture> fixture_;
  std::shared_ptr<Store> store_;
};

// The suite of tests with threads. Its name selects it for ThreadSanitizer.
class StoreConcurrency : public StoreContract {};
// The suite of tests with processes.
class StoreProcesses : public StoreContract {};

const auto kind_name = [](const auto& each) { return each.param.name; };
INSTANTIATE_TEST_SUITE_P(Kinds, StoreContract, ::testing::ValuesIn(all_store_kinds()), kind_name);
INSTANTIATE_TEST_SUITE_P(Kinds, StoreConcurrency, ::testing::ValuesIn(all_store_kinds()),
                         kind_name);
INSTANTIATE_TEST_SUITE_P(Kinds, StoreProcesses, ::testing::ValuesIn(kinds_for_processes()),
                         kind_name);

TEST_P(StoreContract, KeepsArbitraryBytesAndOverwrites) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  set("a/b", "before");
  set("a/b", bytes);
  set("a", "of a shorter key");
  EXPECT_EQ(*store_->get("a/b", long_deadline()), bytes);
  EXPECT_EQ(*store_->get("a", long_deadline()), "of a shorter key");
  set("empty", "");
  EXPECT_EQ(*store_->get("empty", long_deadline()), "");
}

TEST_P(StoreContract, AcceptsTheLongestValueOnly) {
  const std::string longest(Store::kMaxValueBytes, 'x');
  set("long", longest);
  EXPECT_EQ(*store_->get("long", long_deadline()), longest);
  EXPECT_EQ(store_->set("long", longest + "x", kNoExpiry, long_deadline()).kind(),
            StatusKind::kInvalidArgument);
}

TEST_P(StoreContract, RejectsInvalidKeys) {
  const Keys wrong = {"",
                      "/a",
                      "a/",
                      "a//b",
                      "a b",
                      "a\n",
                      std::string(1, '\0'),
                      "a\xff",
                      std::string(201, 'a'),
                      std::string(150, 'a') + "/" + std::string(150, 'b') + "/" +
                          std::string(150, 'c') + "/" + std::string(150, 'd')};
  for (const std::string& key : wrong) {
    EXPECT_EQ(store_->set(key, "v", kNoExpiry, long_deadline()).kind(),
              StatusKind::kInvalidArgument)
        << key;
    EXPECT_EQ(store_->try_get(Keys{key}, long_deadline()).status().kind(),
              StatusKind::kInvalidArgument)
        << key;
    EXPECT_EQ(store_->add(key, 1, kNoExpiry, long_deadline()).status().kind(),
              StatusKind::kInvalidArgument)
        << key;
    EXPECT_EQ(store_->erase(key, long_deadline()).status().kind(), StatusKind::kInvalidArgument)
        << key;
  }
}

TEST_P(StoreContract, AcceptsUnusualAndLongKeys) {
  const Keys unusual = {"..",
                        "../x",
                        ".",
                        "a.d",
                        "a.v",
                        "lock",
                        "being_written",
                        "~!*?[]{}$&'\"\\",
                        std::string(200, 'k') + "/" + std::string(200, 'l')};
  for (const std::string& key : unusual) set(key, "of " + key);
  for (const std::string& key : unusual) EXPECT_EQ(*store_->get(key, long_deadline()), "of " + key);
  for (const std::string& key : unusual) EXPECT_TRUE(*store_->erase(key, long_deadline())) << key;
}

TEST_P(StoreContract, TryGetDoesNotWait) {
  set("there", "1");
  const auto found = store_->try_get(Keys{"there", "not/there", "there"}, Deadline::never());
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ((*found)[0], "1");
  EXPECT_EQ((*found)[1], std::nullopt);
  EXPECT_EQ((*found)[2], "1");
}

TEST_P(StoreContract, TimeoutNamesTheMissingKeys) {
  set("there", "1");
  const Status timeout_status =
      store_->wait(Keys{"missing/1", "there", "missing/2"}, Deadline::after(milliseconds(30)));
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("missing/1, missing/2"));
  EXPECT_THAT(timeout_status.message(), Not(HasSubstr("there")));
}

TEST_P(StoreContract, TimeoutNamesAtMostEightKeys) {
  Keys keys;
  for (int i = 0; i < 100; ++i) keys.push_back("missing/" + std::to_string(i));
  const Status timeout_status = store_->wait(keys, past_deadline());
  EXPECT_THAT(timeout_status.message(), HasSubstr("missing/7 and 92 more"));
}

TEST_P(StoreContract, ReadsOnceIfTheDeadlineHasPassed) {
  set("there", "1");
  EXPECT_EQ(*store_->get("there", past_deadline()), "1");
}

TEST_P(StoreContract, EraseReportsWhetherTheKeyExisted) {
  set("a/b/c", "1");
  EXPECT_TRUE(*store_->erase("a/b/c", long_deadline()));
  EXPECT_FALSE(exists("a/b/c"));
  EXPECT_FALSE(*store_->erase("a/b/c", long_deadline()));
}

TEST_P(StoreContract, KeysExpire) {
  ASSERT_TRUE(store_->set("short", "1", milliseconds(20), long_deadline()).ok());
  ASSERT_TRUE(store_->set("long", "1", std::chrono::hours(1), long_deadline()).ok());
  ASSERT_TRUE(store_->add("count", 5, milliseconds(20), long_deadline()).ok());
  EXPECT_TRUE(contract::eventually([this] { return !exists("short") && !exists("count"); }));
  EXPECT_TRUE(exists("long"));
  EXPECT_FALSE(*store_->erase("short", long_deadline()));
  EXPECT_EQ(*store_->add("count", 1, kNoExpiry, long_deadline()), 1);
}

TEST_P(StoreContract, WritesRestartTheTimeToLive) {
  ASSERT_TRUE(store_->set("key", "1", milliseconds(20), long_deadline()).ok());
  ASSERT_TRUE(store_->set("key", "2", kNoExpiry, long_deadline()).ok());
  // Repeats if the counter expires before the second addition.
  ASSERT_TRUE(contract::eventually([this] {
    (void)store_->erase("count", long_deadline()).ok();
    EXPECT_TRUE(store_->add("count", 1, milliseconds(20), long_deadline()).ok());
    return *store_->add("count", 1, kNoExpiry, long_deadline()) == 2;
  }));
  std::this_thread::sleep_for(milliseconds(40));  // longer than the first time to live
  EXPECT_TRUE(exists("key"));
  EXPECT_EQ(*store_->get("count", long_deadline()), "2");
}

TEST_P(StoreContract, AddsUpToTheLimitsOf64Bits) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(*store_->add("count", 7, kNoExpiry, long_deadline()), 7);
  EXPECT_EQ(*store_->add("count", -10, kNoExpiry, long_deadline()), -3);
  EXPECT_EQ(*store_->get("count", long_deadline()), "-3");
  EXPECT_EQ(*store_->add("count", most, kNoExpiry, long_deadline()), most - 3);
  EXPECT_EQ(store_->add("count", 4, kNoExpiry, long_deadline()).status().kind(),
            StatusKind::kInvalidArgument);
  EXPECT_EQ(*store_->add("count", 3, kNoExpiry, long_deadline()), most);
}

TEST_P(StoreContract, AddRejectsValuesThatAreNotNumbers) {
  set("word", "12x");
  EXPECT_EQ(store_->add("word", 1, kNoExpiry, long_deadline()).status().kind(),
            StatusKind::kFormat);
  EXPECT_EQ(*store_->get("word", long_deadline()), "12x");
}

TEST_P(StoreContract, BarrierTimeoutCountsArrivals) {
  const Status timeout_status =
      store_->barrier("meet", 3, std::chrono::hours(1), Deadline::after(milliseconds(30)));
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("1 of 3 ranks reached the barrier meet"));
  EXPECT_EQ(store_->barrier("none", 0, kNoExpiry, long_deadline()).kind(),
            StatusKind::kInvalidArgument);
}

TEST_P(StoreContract, PrefixesAreIndependent) {
  const std::shared_ptr<Store> one = *try_make_prefix_store(store_, "job/1");
  const std::shared_ptr<Store> two = *try_make_prefix_store(store_, "job/2");
  ASSERT_TRUE(one->set("key", "one", kNoExpiry, long_deadline()).ok());
  ASSERT_TRUE(two->set("key", "two", kNoExpiry, long_deadline()).ok());
  EXPECT_EQ(*one->get("key", long_deadline()), "one");
  EXPECT_EQ(*store_->get("job/2/key", long_deadline()), "two");
  EXPECT_EQ(*two->add("count", 2, kNoExpiry, long_deadline()), 2);
  EXPECT_EQ(*store_->get("job/2/count", long_deadline()), "2");
  EXPECT_TRUE(*two->erase("key", long_deadline()));
  EXPECT_TRUE(exists("job/1/key"));
  EXPECT_EQ(try_make_prefix_store(store_, "a//b").status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(try_make_prefix_store(nullptr, "a").status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(one->set("", "v", kNoExpiry, long_deadline()).kind(), StatusKind::kInvalidArgument);
}

TEST_P(StoreConcurrency, WaitersSeeNewValues) {
  std::vector<std::thread> setters;
  for (int i = 0; i < 4; ++i) {
    setters.emplace_back([i, store = fixture_->open()] {
      EXPECT_TRUE(
          store->set("from/" + std::to_string(i), std::to_string(i * i), kNoExpiry, long_deadline())
              .ok());
    });
  }
  const auto got = store_->multi_get(Keys{"from/0", "from/1", "from/2", "from/3"}, long_deadline());
  for (std::thread& each : setters) each.join();
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(*got, (Keys{"0", "1", "4", "9"}));
}

TEST_P(StoreConcurrency, CountersLoseNoIncrements) {
  std::vector<std::thread> adders;
  std::vector<std::set<int64_t>> seen(4);
  for (int i = 0; i < 4; ++i) {
    adders.emplace_back([&seen, i, store = i % 2 == 0 ? store_ : fixture_->open()] {
      for (int j = 0; j < 50; ++j)
        seen[i].insert(*store->add("count", 1, kNoExpiry, long_deadline()));
    });
  }
  for (std::thread& each : adders) each.join();
  std::set<int64_t> all;
  for (const std::set<int64_t>& each : seen) all.insert(each.begin(), each.end());
  EXPECT_EQ(all.size(), 200U);  // all numbers are distinct
  EXPECT_EQ(*all.rbegin(), 200);
}

TEST_P(StoreConcurrency, BarrierReleasesNoThreadEarly) {
  std::vector<std::thread> arrivals;
  for (int i = 0; i < 4; ++i) {
    arrivals.emplace_back([store = i % 2 == 0 ? store_ : fixture_->open()] {
      for (int round = 0; round < 5; ++round) {
        const std::string name = "round/" + std::to_string(round);
        EXPECT_TRUE(store->add(name + "/before", 1, kNoExpiry, long_deadline()).ok());
        EXPECT_TRUE(store->barrier(name, 4, kNoExpiry, long_deadline()).ok());
        EXPECT_EQ(*store->get(name + "/before", long_deadline()), "4");
      }
    });
  }
  for (std::thread& each : arrivals) each.join();
  for (int round = 0; round < 5; ++round) {
    EXPECT_FALSE(exists("round/" + std::to_string(round) + "/come"));
    EXPECT_FALSE(exists("round/" + std::to_string(round) + "/gone"));
  }
}

TEST_P(StoreProcesses, CountSetWaitAndSynchronize) {
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(std::make_unique<ChildProcess>([this, i](int) {
      const std::shared_ptr<Store> store = fixture_->open();
      for (int j = 0; j < 50; ++j) {
        if (!store->add("count", 1, kNoExpiry, long_deadline()).ok()) return 1;
      }
      if (!store->set("value/" + std::to_string(i), std::to_string(i), kNoExpiry, long_deadline())
               .ok()) {
        return 2;
      }
      if (!store->barrier("meet", 4, kNoExpiry, long_deadline()).ok()) return 3;
      const auto all = store->multi_get(Keys{"count", "value/0", "value/1", "value/2", "value/3"},
                                        long_deadline());
      if (!all.ok() || *all != Keys{"200", "0", "1", "2", "3"}) return 4;
      return 0;
    }));
  }
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_FALSE(exists("meet/come"));
  EXPECT_FALSE(exists("meet/gone"));
}

// A writer is killed repeatedly: the other processes continue and read complete values only.
TEST_P(StoreProcesses, KilledWriterDoesNotBlockOthers) {
  for (int round = 0; round < 10; ++round) {
    ChildProcess writer([this](int socket_fd) {
      const std::shared_ptr<Store> store = fixture_->open();
      for (int i = 0;; ++i) {
        (void)store->set("big", std::string(100'000, static_cast<char>('a' + i % 26)), kNoExpiry,
                         long_deadline());
        (void)store->add("count", 1, kNoExpiry, long_deadline());
        if (i == 2) (void)notify(socket_fd);
      }
      return 0;
    });
    ASSERT_TRUE(wait_for_notification(writer.socket_fd()));
    writer.kill();
    const Result<std::string> big = store_->get("big", long_deadline());
    ASSERT_TRUE(big.ok()) << big.status().to_string();
    EXPECT_EQ(*big, std::string(100'000, big->front()));
    EXPECT_TRUE(store_->add("count", 1, kNoExpiry, long_deadline()).ok());
    set("big", "mine");
  }
}

}  // namespace
}  // namespace ashlar::symm
