// SPDX-License-Identifier: Apache-2.0
//
// Tests of BiasedMutex: mutual exclusion while ownership changes and owner threads exit.
#include "base/biased_mutex.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace ashlar {
namespace {

using Lock = BiasedMutex<LockRank::kArena>;
using Guard = BiasedLock<LockRank::kArena>;
using OwnersGuard = OwnedLock<LockRank::kArena>;

void lock_often(Lock& lock) {
  for (int i = 0; i < 200; ++i) const Guard guard(lock);
}

bool is_owned(const Lock& lock) { return OwnersGuard(lock).is_held(); }

class BiasedMutexConcurrency : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!bias::is_supported()) GTEST_SKIP() << "NOT TESTED: biased locks are not available";
  }
  Lock lock_;
};

TEST(BiasedMutex, ListsAWatchAtTheNextAcquisition) {
  Lock lock;
  lock_often(lock);
  LockWatch first;
  LockWatch second;
  LockWatchList watched;
  lock.lock_unbiased();
  lock.watch(first, watched);
  lock.watch(second, watched);
  lock.unlock_unbiased();
  EXPECT_FALSE(is_owned(lock)) << "the fast path would not notice the watches";
  lock.lock_unbiased();
  lock.unlock_unbiased();
  EXPECT_TRUE(watched.empty());
  lock_often(lock);
  std::set<LockWatch*> listed;
  for (LockWatch* each = watched.take_all(); each != nullptr; each = each->next) {
    listed.insert(each);
  }
  EXPECT_EQ(listed, (std::set<LockWatch*>{&first, &second}));
  EXPECT_TRUE(watched.empty());
}

TEST(BiasedMutex, ThreadIdsAreUniqueAmongLiveThreads) {
  std::set<uintptr_t> ids = {thread_id_fast()};
  EXPECT_EQ(ids.count(0), 0U);
  EXPECT_EQ(ids.count(thread_id_fast()), 1U) << "it stays the same";
  std::atomic<int> seen_count{0};
  std::vector<uintptr_t> others(8);
  std::vector<std::thread> threads;
  for (uintptr_t& id : others) {
    threads.emplace_back([&] {
      id = thread_id_fast();
      ++seen_count;
      while (seen_count < 8) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  ids.insert(others.begin(), others.end());
  EXPECT_EQ(ids.size(), 9U);
}

TEST_F(BiasedMutexConcurrency, BiasesToARepeatedOwner) {
  EXPECT_FALSE(is_owned(lock_));
  lock_often(lock_);
  EXPECT_TRUE(is_owned(lock_));
  std::thread([&] {
    EXPECT_FALSE(is_owned(lock_));
    const Guard guard(lock_);
  }).join();
  EXPECT_FALSE(is_owned(lock_)) << "the other thread has taken it";
}

// The mutexes of an ended thread pass to at most one other thread: the thread that reuses its
// record.
TEST_F(BiasedMutexConcurrency, LocksAfterItsOwnerThreadEnded) {
  for (int i = 0; i < 50; ++i) {
    std::thread([&] { lock_often(lock_); }).join();
    EXPECT_FALSE(is_owned(lock_)) << "this thread never locked it";
    std::atomic<int> owner_count{0};
    std::atomic<int> locked_count{0};
    std::vector<std::thread> threads;
    for (int each = 0; each < 3; ++each) {
      threads.emplace_back([&] {
        Lock another;
        lock_often(another);  // a thread gets its record with its first lock
        owner_count += is_owned(lock_) ? 1 : 0;
        ++locked_count;
        while (locked_count < 3) std::this_thread::yield();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(owner_count, 1);
    const Guard guard(lock_);
  }
}

TEST_F(BiasedMutexConcurrency, ExcludesThreadsWhileOwnersChange) {
  int64_t count = 0;  // guarded by the lock
  constexpr int kRounds = 300;
  const auto work = [&] {
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < 100; ++i) {  // the thread locks often enough to become the owner
        const Guard guard(lock_);
        ++count;
      }
      std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 3 * kRounds * 100);
}

}  // namespace
}  // namespace ashlar
