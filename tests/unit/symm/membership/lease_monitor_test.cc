// SPDX-License-Identifier: Apache-2.0
//
// Tests lease monitoring with heartbeats driven by the test, the heartbeat thread, and failure
// records.
#include "symm/membership/lease_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "contract/waiting.h"
#include "unit/symm/stores/store_fixtures.h"
#include "unit/symm/stores/user_store.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// The lease monitor of one rank and its failure state.
struct MonitoredRank {
  MonitoredRank(const std::shared_ptr<Store>& store, RankInfo rank_info, std::vector<int> watched,
                milliseconds lease)
      : failure_record(store, "g", failure, std::chrono::minutes(1)),
        leases(store, failure_record,
               {"g", "test", rank_info, std::move(watched), lease, milliseconds(60000)}) {}
  void run() { leases.run(long_deadline()); }

  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  FailureRecord failure_record;
  LeaseMonitor leases;
};

TEST(LeaseMonitor, ReportsARankWithoutHeartbeatAsLost) {
  const std::shared_ptr<Store> store = make_memory_store();
  MonitoredRank rank_0(store, {0, 2}, {1}, milliseconds(100));
  MonitoredRank rank_1(store, {1, 2}, {0}, milliseconds(100));
  rank_1.run();
  EXPECT_TRUE(contract::eventually([&] {
    rank_0.run();
    return rank_0.failure->has_happened();
  }));
  EXPECT_EQ(rank_0.failure->reason().kind(), StatusKind::kPeerLost);
  EXPECT_THAT(rank_0.failure->reason().message(),
              HasSubstr("rank 1 of group test sent no heartbeat for 100 ms"));
  rank_1.run();  // reads the failure record
  EXPECT_EQ(rank_1.failure->reason().message(), rank_0.failure->reason().message());
}

TEST(LeaseMonitor, ReportsNoRankAfterAShortStoreResponse) {
  MonitoredRank rank_0(UserStore::with_short_responses(), {0, 2}, {1}, milliseconds(100));
  for (int i = 0; i < 20 && !rank_0.failure->has_happened(); ++i) {
    rank_0.run();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_FALSE(rank_0.failure->has_happened());
}

TEST(LeaseMonitor, ReportsNoRankWhileHeartbeatsArrive) {
  const std::shared_ptr<Store> store = make_memory_store();
  MonitoredRank rank_0(store, {0, 2}, {1}, milliseconds(10'000));
  MonitoredRank rank_1(store, {1, 2}, {0}, milliseconds(10'000));
  for (int i = 0; i < 10; ++i) {
    rank_0.run();
    rank_1.run();
  }
  EXPECT_FALSE(rank_0.failure->has_happened());
  rank_0.leases.erase_heartbeat(long_deadline());
  rank_1.leases.erase_heartbeat(long_deadline());
  const std::string keys[] = {"g/lives/0", "g/lives/1"};
  const auto left = store->try_get(keys, long_deadline());
  EXPECT_FALSE((*left)[0]);
  EXPECT_FALSE((*left)[1]);
}

TEST(LeaseMonitor, ReportsNoRankAfterAStallOfItsOwn) {
  const std::shared_ptr<Store> store = make_memory_store();
  MonitoredRank rank_0(store, {0, 2}, {1}, milliseconds(20));
  std::this_thread::sleep_for(milliseconds(60));
  rank_0.run();
  EXPECT_FALSE(rank_0.failure->has_happened());
}

TEST(LeaseMonitor, PublishesAFailureDetectedLocally) {
  const std::shared_ptr<Store> store = make_memory_store();
  MonitoredRank rank_0(store, {0, 2}, {1}, milliseconds(10'000));
  MonitoredRank rank_1(store, {1, 2}, {0}, milliseconds(10'000));
  rank_0.failure->report(Status::peer_lost("rank 2 of group test died"));
  rank_0.run();
  rank_1.run();
  EXPECT_EQ(rank_1.failure->reason().message(), "rank 2 of group test died");
}

// The rank is elected to write the record, but the store's response is lost.
TEST(LeaseMonitor, PublishesAFailureAfterALostElection) {
  const auto store = std::make_shared<UserStore>();
  int lost_count = 0;
  store->loses_response = [&](std::string_view key) {
    return key == "g/failing" && lost_count++ == 0;
  };
  MonitoredRank rank_0(store, {0, 2}, {1}, milliseconds(10'000));
  rank_0.failure->report(Status::peer_lost("rank 2 of group test died"));
  const std::string record[] = {rank_0.failure_record.key()};
  EXPECT_TRUE(contract::eventually([&] {
    rank_0.leases.run(Deadline::after(milliseconds(10)));
    return (*store->try_get(record, long_deadline()))[0].has_value();
  }));
  EXPECT_GT(lost_count, 1);
  EXPECT_TRUE(rank_0.failure_record.is_writer());
}

class CountingTask final : public HeartbeatTask {
 public:
  void run(Deadline /*deadline*/) override { ++count; }
  std::atomic<int> count{0};
};

TEST(HeartbeatThreadConcurrency, RunsTasksUntilTheyAreRemoved) {
  const std::unique_ptr<HeartbeatThread> heartbeat_thread =
      *HeartbeatThread::start(milliseconds(1));
  CountingTask task;
  CountingTask another;
  heartbeat_thread->add(task);
  heartbeat_thread->add(another);
  EXPECT_TRUE(contract::eventually([&] { return task.count > 2 && another.count > 2; }));
  heartbeat_thread->remove(task);
  const int count = task.count;
  EXPECT_TRUE(contract::consistently([&] { return task.count == count; }));
  heartbeat_thread->remove(another);
}

TEST(HeartbeatThreadConcurrency, RunsANewTaskImmediately) {
  const std::unique_ptr<HeartbeatThread> heartbeat_thread =
      *HeartbeatThread::start(std::chrono::hours(1));
  CountingTask task;
  heartbeat_thread->add(task);
  EXPECT_TRUE(contract::eventually([&] { return task.count > 0; }));
  heartbeat_thread->remove(task);
}

// Heartbeats have short deadlines, so a write may fail. The next heartbeat retries the write.
TEST(FailureRecord, RetriesAfterAFailedWrite) {
  const auto store = std::make_shared<UserStore>();
  const auto failure = std::make_shared<Failure>();
  FailureRecord failure_record(store, "p", failure, std::chrono::seconds(60));
  const Status lost = Status::peer_lost("rank 1 died");
  store->rejects_key = [](std::string_view key) { return key.ends_with("/failing"); };
  EXPECT_EQ(failure_record.try_publish(lost, long_deadline()),
            FailureRecord::PublishResult::kStoreUnavailable);
  EXPECT_EQ(failure->reason().message(), "rank 1 died");
  store->rejects_key = [](std::string_view key) { return key.ends_with("/failed"); };
  EXPECT_EQ(failure_record.try_publish(lost, long_deadline()),
            FailureRecord::PublishResult::kStoreUnavailable);
  store->rejects_key = {};
  EXPECT_EQ(failure_record.try_publish(lost, long_deadline()),
            FailureRecord::PublishResult::kPublished);
  EXPECT_TRUE(store->memory().get(failure_record.key(), long_deadline()).ok());
  EXPECT_EQ(*store->memory().get("p/failing", long_deadline()), "1") << "must be elected only once";
  EXPECT_EQ(failure_record.publish(Status::timeout("another")).message(), "rank 1 died");
}

// `publish` returns although the store is unavailable. If the store recovers, heartbeats write the
// record.
TEST(FailureRecord, IsWrittenWhenTheStoreRecovers) {
  const auto store = std::make_shared<UserStore>();
  MonitoredRank rank_0(store, {0, 2}, {1}, milliseconds(10'000));
  store->rejects_key = [](std::string_view) { return true; };
  const Status lost = Status::peer_lost("rank 1 died");
  EXPECT_EQ(rank_0.failure_record.publish(lost).message(), "rank 1 died");
  rank_0.run();
  store->rejects_key = {};
  rank_0.run();
  const Result<std::string> record =
      store->memory().get(rank_0.failure_record.key(), Deadline::after(milliseconds(0)));
  ASSERT_TRUE(record.ok()) << record.status().to_string();
  EXPECT_EQ(FailureRecord::parse_reason(*record).message(), "rank 1 died");
}

// The store may contain the reason of another rank, which was elected while this rank could not
// reach the store.
TEST(FailureRecord, KeepsReturningTheFirstReasonAfterTheStoreRecovers) {
  const auto store = std::make_shared<UserStore>();
  MonitoredRank rank_0(store, {0, 2}, {1}, milliseconds(10'000));
  MonitoredRank rank_1(store, {1, 2}, {0}, milliseconds(10'000));
  EXPECT_EQ(rank_1.failure_record.publish(Status::timeout("rank 2 is late")).message(),
            "rank 2 is late");
  store->rejects_key = [](std::string_view) { return true; };
  const Status lost = Status::peer_lost("rank 1 died");
  EXPECT_EQ(rank_0.failure_record.publish(lost).message(), "rank 1 died");
  store->rejects_key = {};
  rank_0.run();
  EXPECT_EQ(rank_0.failure_record.publish(lost).message(), "rank 1 died");
  EXPECT_FALSE(rank_0.failure_record.is_writer());
}

}  // namespace
}  // namespace ashlar::symm
