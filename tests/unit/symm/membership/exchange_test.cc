// SPDX-License-Identifier: Apache-2.0
//
// Tests exchanges over a store, with threads as ranks, and their failures.
#include "symm/membership/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "unit/symm/stores/store_fixtures.h"
#include "unit/symm/stores/user_store.h"

namespace ashlar::symm {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The state of one rank.
struct Member {
  Member(const std::shared_ptr<Store>& store, RankInfo rank_info, const char* failure_prefix = "g")
      : failure_record(store, failure_prefix, failure, std::chrono::minutes(1)),
        exchange(store, failure_record, {"g", "test", rank_info, std::chrono::minutes(1)}) {}

  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  FailureRecord failure_record;
  Exchange exchange;
};

class ExchangeConcurrency : public ::testing::TestWithParam<int> {
 protected:
  // Runs `body` for every rank on its own thread.
  template <typename Body>
  void on_all_ranks(const Body& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < GetParam(); ++rank) {
      threads.emplace_back([this, rank, &body] {
        Member member(store_, {rank, GetParam()});
        body(member, rank);
      });
    }
    for (std::thread& each : threads) each.join();
  }

  TemporaryFolder folder_;
  std::shared_ptr<Store> store_ = *try_open_file_store(folder_.path());
};

INSTANTIATE_TEST_SUITE_P(WorldSizes, ExchangeConcurrency, ::testing::Values(1, 2, 3, 5, 8),
                         ::testing::PrintToStringParamName());

TEST_P(ExchangeConcurrency, AllGatherReturnsAllValuesAndErasesItsKeys) {
  on_all_ranks([](Member& member, int rank) {
    for (int round = 0; round < 5; ++round) {
      const auto all =
          member.exchange.all_gather(text("of ", rank, " in ", round), long_deadline());
      ASSERT_TRUE(all.ok()) << all.status().to_string();
      for (int other = 0; other < GetParam(); ++other) {
        EXPECT_EQ((*all)[other], text("of ", other, " in ", round));
      }
    }
    EXPECT_EQ(member.exchange.sequence(), 5U);
    EXPECT_TRUE(member.exchange.finish(long_deadline()).ok());
  });
  std::vector<std::string> left;
  for (const auto& each : fs::recursive_directory_iterator(folder_.path())) {
    left.push_back(each.path().filename().string());
  }
  EXPECT_THAT(left, ElementsAre("lock"));
}

TEST_P(ExchangeConcurrency, AgreeReturnsAllErrorsAndKeepsTheGroupUsable) {
  on_all_ranks([](Member& member, int rank) {
    EXPECT_TRUE(member.exchange.agree({}, long_deadline()).ok());
    const bool is_last = rank == GetParam() - 1;
    const Status own = is_last ? Status::out_of_memory("no room") : Status();
    const Status agreed = member.exchange.agree(own, long_deadline());
    EXPECT_EQ(agreed.kind(), StatusKind::kOutOfMemory);
    EXPECT_EQ(agreed.message(), text("rank ", GetParam() - 1, ": no room"));
    EXPECT_TRUE(member.exchange.barrier(long_deadline()).ok());
  });
}

class ExchangeTest : public ::testing::Test {
 protected:
  std::shared_ptr<Store> store_ = make_memory_store();
};

TEST_F(ExchangeTest, TimeoutNamesMissingRanksEvenIfTheStoreIsSlow) {
  const auto store = std::make_shared<UserStore>();
  store->response_time = milliseconds(100);
  Member own(store, {0, 2});
  const Status timeout_status = own.exchange.barrier(Deadline::after(milliseconds(600)));
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("rank 1 of group test did not reach exchange 0"));
}

// The keys of the final barrier have a short time to live, so a rank must set its key again when it
// sees that all ranks have arrived.
TEST_F(ExchangeTest, FinishResetsItsKeyForRanksThatReadLater) {
  const auto store = std::make_shared<UserStore>();
  store->change_responses = [&](UserStore::Responses& responses) {
    const bool has_all = responses.size() == 3 && responses[0] && responses[2];
    if (has_all) (void)store->memory().erase("g/0/0", long_deadline()).ok();
  };
  const std::shared_ptr<Store> memory(store, &store->memory());
  Member other(memory, {1, 2}, "h");  // rank 0 does not read this failure prefix
  EXPECT_FALSE(other.exchange.barrier(past_deadline()).ok());
  Member own(store, {0, 2});
  EXPECT_TRUE(own.exchange.finish(long_deadline()).ok());
  const std::string keys[] = {"g/0/0"};
  EXPECT_TRUE((*memory->try_get(keys, long_deadline()))[0]);
}

TEST_F(ExchangeTest, TimeoutNamesAllMissingRanks) {
  Member member(store_, {1, 4});
  std::thread other([this] {
    Member also(store_, {2, 4});
    EXPECT_FALSE(also.exchange.barrier(Deadline::after(milliseconds(1000))).ok());
  });
  const Status timeout_status = member.exchange.barrier(Deadline::after(milliseconds(1000)));
  other.join();
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("ranks 0 and 3 of group test"));
  EXPECT_TRUE(member.failure->has_happened());
}

TEST_F(ExchangeTest, LateRankReturnsTheSameError) {
  Member early(store_, {0, 2});
  const Status timeout_status = early.exchange.barrier(Deadline::after(milliseconds(20)));
  Member late_rank(store_, {1, 2});
  const Status received = late_rank.exchange.barrier(long_deadline());
  EXPECT_EQ(received.kind(), StatusKind::kTimeout);
  EXPECT_EQ(received.message(), timeout_status.message());
  EXPECT_EQ(early.exchange.barrier(long_deadline()).message(), timeout_status.message());
}

TEST_F(ExchangeTest, FailureAfterAnExchangeDoesNotUndoIt) {
  Member fast(store_, {0, 2});
  Member slow(store_, {1, 2});
  std::thread other([&] { EXPECT_TRUE(slow.exchange.barrier(long_deadline()).ok()); });
  EXPECT_TRUE(fast.exchange.barrier(long_deadline()).ok());
  (void)fast.failure_record.publish(Status::peer_lost("rank 0 of group test gave up")).ok();
  other.join();
  EXPECT_EQ(slow.exchange.barrier(long_deadline()).message(), "rank 0 of group test gave up");
}

TEST_F(ExchangeTest, FailureEndsTheWait) {
  Member member(store_, {0, 2});
  std::thread killer(
      [&] { member.failure->report(Status::peer_lost("rank 1 of group test died")); });
  const Status lost = member.exchange.barrier(long_deadline());
  killer.join();
  EXPECT_EQ(lost.kind(), StatusKind::kPeerLost);
  EXPECT_EQ(lost.message(), "rank 1 of group test died");
}

TEST_F(ExchangeTest, RejectsMalformedRecords) {
  const std::string records[] = {"", "nonsense that is long enough to have been a whole record",
                                 std::string("ashx\x01\0", 6)};
  for (const std::string& record : records) {
    const std::shared_ptr<Store> store = make_memory_store();
    ASSERT_TRUE(store->set("g/0/1", record, kNoExpiry, long_deadline()).ok());
    Member member(store, {0, 2});
    const Status bad = member.exchange.barrier(long_deadline());
    EXPECT_EQ(bad.kind(), StatusKind::kFormat);
    EXPECT_THAT(bad.message(), HasSubstr("rank 1 of group test"));
  }
}

TEST_F(ExchangeTest, ReportsAVersionMismatch) {
  ASSERT_TRUE(store_->set("g/0/1", std::string("ashx\x07\0", 6), kNoExpiry, long_deadline()).ok());
  Member member(store_, {0, 2});
  EXPECT_THAT(member.exchange.barrier(long_deadline()).message(), HasSubstr("uses version 7"));
}

TEST_F(ExchangeTest, RepublishesItsRecordWhenTheStoreLosesIt) {
  Member member(store_, {0, 2});
  std::thread other([this] {
    while (!store_->get("g/0/0", long_deadline()).ok()) {
    }
    EXPECT_TRUE(*store_->erase("g/0/0", long_deadline()));  // the store loses a key
    EXPECT_TRUE(store_->get("g/0/0", long_deadline()).ok());
    Member late(store_, {1, 2});
    EXPECT_TRUE(late.exchange.barrier(long_deadline()).ok());
  });
  EXPECT_TRUE(member.exchange.barrier(long_deadline()).ok());
  other.join();
}

TEST_F(ExchangeTest, RepublishesItsRecordAfterAllOthersHaveArrived) {
  Member early(store_, {1, 2});
  EXPECT_FALSE(early.exchange.barrier(past_deadline()).ok());
  const auto losing_store = std::make_shared<UserStore>();
  ASSERT_TRUE(
      losing_store->set("g/0/1", *store_->get("g/0/1", long_deadline()), kNoExpiry, long_deadline())
          .ok());
  losing_store->before_read = [](Store& store) {
    (void)store.erase("g/0/0", long_deadline()).ok();
  };
  Member member(losing_store, {0, 2});
  EXPECT_TRUE(member.exchange.barrier(long_deadline()).ok());
  EXPECT_TRUE(losing_store->memory().get("g/0/0", past_deadline()).ok());
}

TEST_F(ExchangeTest, RejectsShortStoreResponses) {
  Member member(UserStore::with_short_responses(), {0, 2});
  const Status bad = member.exchange.barrier(long_deadline());
  EXPECT_EQ(bad.kind(), StatusKind::kFormat);
  EXPECT_THAT(bad.message(), HasSubstr("returned 2 values for 3 keys"));
}

TEST_F(ExchangeTest, WorksWithOneRank) {
  Member member(store_, {0, 1});
  EXPECT_THAT(*member.exchange.all_gather("mine", long_deadline()), ElementsAre("mine"));
}

TEST(FailureRecord, StatusRoundTrips) {
  const Status all[] = {Status(),
                        Status::out_of_memory("a"),
                        Status::invalid_argument("b"),
                        Status::unsupported("c"),
                        Status::format("d"),
                        Status::timeout("e"),
                        Status::peer_lost("f"),
                        Status::device_fault("call", 3, "g"),
                        Status::device_lost("call", 3, "h")};
  for (const Status& each : all) {
    EXPECT_EQ(parse_status(to_bytes(each)).kind(), each.kind());
    EXPECT_EQ(parse_status(to_bytes(each)).message(), each.message());
  }
  EXPECT_EQ(parse_status("x").kind(), StatusKind::kFormat);
  EXPECT_EQ(parse_status(std::string("ashs\x63\0\0\0\0", 9)).kind(), StatusKind::kFormat);
}

}  // namespace
}  // namespace ashlar::symm
