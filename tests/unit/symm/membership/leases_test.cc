// SPDX-License-Identifier: Apache-2.0
//
// Signs of life, beaten by hand.
#include "symm/membership/leases.h"

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
  Living(const std::shared_ptr<Store>& store, Seat seat, std::vector<int> watched,
         milliseconds lease)
      : verdict(store, "g", failure, std::chrono::minutes(1)),
        leases(store, verdict,
               {"g", "test", seat, std::move(watched), lease, milliseconds(60000)}) {}
  void beat() { leases.beat(patience()); }

  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  Verdict verdict;
  Leases leases;
};

TEST(Leases, ARankWhoseNumberStaysTheSameIsLost) {
  const std::shared_ptr<Store> store = make_memory_store();
  Living here(store, {0, 2}, {1}, milliseconds(100));
  Living there(store, {1, 2}, {0}, milliseconds(100));
  there.beat();
  EXPECT_TRUE(contract::eventually([&] {
    here.beat();
    return here.failure->has_happened();
  }));
  EXPECT_EQ(here.failure->reason().kind(), StatusKind::kPeerLost);
  EXPECT_THAT(here.failure->reason().message(),
              HasSubstr("rank 1 of group test gave no sign of life for 100 ms"));
  there.beat();  // and so the others learn of it
  EXPECT_EQ(there.failure->reason().message(), here.failure->reason().message());
}

TEST(Leases, NobodyIsBlamedForAStoreThatAnswersTooLittle) {
  Living here(UserStore::that_answers_too_little(), {0, 2}, {1}, milliseconds(100));
  for (int i = 0; i < 20 && !here.failure->has_happened(); ++i) {
    here.beat();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_FALSE(here.failure->has_happened());
}

TEST(Leases, RanksThatBeatLive) {
  const std::shared_ptr<Store> store = make_memory_store();
  Living here(store, {0, 2}, {1}, milliseconds(10'000));
  Living there(store, {1, 2}, {0}, milliseconds(10'000));
  for (int i = 0; i < 10; ++i) {
    here.beat();
    there.beat();
  }
  EXPECT_FALSE(here.failure->has_happened());
  here.leases.end(patience());
  there.leases.end(patience());
  const std::string keys[] = {"g/lives/0", "g/lives/1"};
  const auto left = store->try_get(keys, patience());
  EXPECT_FALSE((*left)[0]);
  EXPECT_FALSE((*left)[1]);
}

TEST(Leases, OneThatStoodStillItselfBlamesNobody) {
  const std::shared_ptr<Store> store = make_memory_store();
  Living here(store, {0, 2}, {1}, milliseconds(20));
  std::this_thread::sleep_for(milliseconds(60));
  here.beat();
  EXPECT_FALSE(here.failure->has_happened());
}

TEST(Leases, WhatTheRankNoticedItselfIsToldToTheOthers) {
  const std::shared_ptr<Store> store = make_memory_store();
  Living here(store, {0, 2}, {1}, milliseconds(10'000));
  Living there(store, {1, 2}, {0}, milliseconds(10'000));
  here.failure->report(Status::peer_lost("rank 2 of group test died"));
  here.beat();
  there.beat();
  EXPECT_EQ(there.failure->reason().message(), "rank 2 of group test died");
}

class Counting final : public Pulse {
 public:
  void beat(Deadline /*deadline*/) override { ++count; }
  std::atomic<int> count{0};
};

TEST(HeartConcurrency, BeatsAtOnceAndAgainUntilItIsRemoved) {
  const std::unique_ptr<Heart> heart = *Heart::start(milliseconds(1));
  Counting pulse;
  Counting another;
  heart->add(pulse);
  heart->add(another);
  EXPECT_TRUE(contract::eventually([&] { return pulse.count > 2 && another.count > 2; }));
  heart->remove(pulse);
  const int count = pulse.count;
  EXPECT_TRUE(contract::stays([&] { return pulse.count == count; }));
  heart->remove(another);
}

TEST(HeartConcurrency, DoesNotWaitAnIntervalForTheFirstBeat) {
  const std::unique_ptr<Heart> heart = *Heart::start(std::chrono::hours(1));
  Counting pulse;
  heart->add(pulse);
  EXPECT_TRUE(contract::eventually([&] { return pulse.count > 0; }));
  heart->remove(pulse);
}

// A beat has little time: what it cannot write, the next one does.
TEST(Verdict, ThatTheStoreDidNotTakeIsWrittenTheNextTime) {
  const auto store = std::make_shared<UserStore>();
  const auto failure = std::make_shared<Failure>();
  Verdict verdict(store, "p", failure, std::chrono::seconds(60));
  const Status lost = Status::peer_lost("rank 1 is gone");
  store->refuses = [](std::string_view key) { return key.ends_with("/failing"); };
  EXPECT_EQ(verdict.tell(lost, patience()), Verdict::Told::kNotByStore);
  EXPECT_EQ(failure->reason().message(), "rank 1 is gone");
  store->refuses = [](std::string_view key) { return key.ends_with("/failed"); };
  EXPECT_EQ(verdict.tell(lost, patience()), Verdict::Told::kNotByStore);
  store->refuses = {};
  EXPECT_EQ(verdict.tell(lost, patience()), Verdict::Told::kYes);
  EXPECT_TRUE(store->memory().get(verdict.key(), patience()).ok());
  EXPECT_EQ(*store->memory().get("p/failing", patience()), "1") << "it was elected once";
  EXPECT_EQ(verdict.announce(Status::timeout("another")).message(), "rank 1 is gone");
}

}  // namespace
}  // namespace ashlar::symm
