// SPDX-License-Identifier: Apache-2.0
//
// Lease monitoring with heartbeats driven by the test, the heartbeat thread, and failure records.
#include "symm/membership/lease_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "contract/waiting.h"
#include "unit/symm/stores/store_places.h"
#include "unit/symm/stores/user_store.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

struct Living {
  Living(const std::shared_ptr<Store>& store, RankInfo rank_info, std::vector<int> watched,
         milliseconds lease)
      : failure_record(store, "g", failure, std::chrono::minutes(1)),
        leases(store, failure_record,
               {"g", "test", rank_info, std::move(watched), lease, milliseconds(60000)}) {}
  void run() { leases.run(patience()); }

  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  FailureRecord failure_record;
  LeaseMonitor leases;
};

TEST(LeaseMonitor, ReportsARankWithoutHeartbeatAsLost) {
  const std::shared_ptr<Store> store = make_memory_store();
  Living here(store, {0, 2}, {1}, milliseconds(100));
  Living there(store, {1, 2}, {0}, milliseconds(100));
  there.run();
  EXPECT_TRUE(contract::eventually([&] {
    here.run();
    return here.failure->has_happened();
  }));
  EXPECT_EQ(here.failure->reason().kind(), StatusKind::kPeerLost);
  EXPECT_THAT(here.failure->reason().message(),
              HasSubstr("rank 1 of group test sent no heartbeat for 100 ms"));
  there.run();  // reads the failure record
  EXPECT_EQ(there.failure->reason().message(), here.failure->reason().message());
}

TEST(LeaseMonitor, ReportsNoRankAfterAShortStoreResponse) {
  Living here(UserStore::that_answers_too_little(), {0, 2}, {1}, milliseconds(100));
  for (int i = 0; i < 20 && !here.failure->has_happened(); ++i) {
    here.run();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_FALSE(here.failure->has_happened());
}

TEST(LeaseMonitor, ReportsNoRankWhileHeartbeatsArrive) {
  const std::shared_ptr<Store> store = make_memory_store();
  Living here(store, {0, 2}, {1}, milliseconds(10'000));
  Living there(store, {1, 2}, {0}, milliseconds(10'000));
  for (int i = 0; i < 10; ++i) {
    here.run();
    there.run();
  }
  EXPECT_FALSE(here.failure->has_happened());
  here.leases.erase_heartbeat(patience());
  there.leases.erase_heartbeat(patience());
  const std::string keys[] = {"g/lives/0", "g/lives/1"};
  const auto left = store->try_get(keys, patience());
  EXPECT_FALSE((*left)[0]);
  EXPECT_FALSE((*left)[1]);
}

TEST(LeaseMonitor, ReportsNoRankAfterAStallOfItsOwn) {
  const std::shared_ptr<Store> store = make_memory_store();
  Living here(store, {0, 2}, {1}, milliseconds(20));
  std::this_thread::sleep_for(milliseconds(60));
  here.run();
  EXPECT_FALSE(here.failure->has_happened());
}

TEST(LeaseMonitor, PublishesAFailureDetectedLocally) {
  const std::shared_ptr<Store> store = make_memory_store();
  Living here(store, {0, 2}, {1}, milliseconds(10'000));
  Living there(store, {1, 2}, {0}, milliseconds(10'000));
  here.failure->report(Status::peer_lost("rank 2 of group test died"));
  here.run();
  there.run();
  EXPECT_EQ(there.failure->reason().message(), "rank 2 of group test died");
}

class Counting final : public HeartbeatTask {
 public:
  void run(Deadline /*deadline*/) override { ++count; }
  std::atomic<int> count{0};
};

TEST(HeartbeatThreadConcurrency, RunsTasksUntilTheyAreRemoved) {
  const std::unique_ptr<HeartbeatThread> heartbeat_thread =
      *HeartbeatThread::start(milliseconds(1));
  Counting pulse;
  Counting another;
  heartbeat_thread->add(pulse);
  heartbeat_thread->add(another);
  EXPECT_TRUE(contract::eventually([&] { return pulse.count > 2 && another.count > 2; }));
  heartbeat_thread->remove(pulse);
  const int count = pulse.count;
  EXPECT_TRUE(contract::consistently([&] { return pulse.count == count; }));
  heartbeat_thread->remove(another);
}

TEST(HeartbeatThreadConcurrency, RunsANewTaskImmediately) {
  const std::unique_ptr<HeartbeatThread> heartbeat_thread =
      *HeartbeatThread::start(std::chrono::hours(1));
  Counting pulse;
  heartbeat_thread->add(pulse);
  EXPECT_TRUE(contract::eventually([&] { return pulse.count > 0; }));
  heartbeat_thread->remove(pulse);
}

// A heartbeat has little time: a write that fails is retried by the next one.
TEST(FailureRecord, RetriesAfterAFailedWrite) {
  const auto store = std::make_shared<UserStore>();
  const auto failure = std::make_shared<Failure>();
  FailureRecord failure_record(store, "p", failure, std::chrono::seconds(60));
  const Status lost = Status::peer_lost("rank 1 is gone");
  store->refuses = [](std::string_view key) { return key.ends_with("/failing"); };
  EXPECT_EQ(failure_record.try_publish(lost, patience()),
            FailureRecord::PublishResult::kStoreUnavailable);
  EXPECT_EQ(failure->reason().message(), "rank 1 is gone");
  store->refuses = [](std::string_view key) { return key.ends_with("/failed"); };
  EXPECT_EQ(failure_record.try_publish(lost, patience()),
            FailureRecord::PublishResult::kStoreUnavailable);
  store->refuses = {};
  EXPECT_EQ(failure_record.try_publish(lost, patience()), FailureRecord::PublishResult::kPublished);
  EXPECT_TRUE(store->memory().get(failure_record.key(), patience()).ok());
  EXPECT_EQ(*store->memory().get("p/failing", patience()), "1") << "it was elected once";
  EXPECT_EQ(failure_record.publish(Status::timeout("another")).message(), "rank 1 is gone");
}

}  // namespace
}  // namespace ashlar::symm
