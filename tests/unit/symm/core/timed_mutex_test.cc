// SPDX-License-Identifier: Apache-2.0
//
// Tests mutual exclusion and deadlines of TimedMutex.
#include "symm/core/timed_mutex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "contract/waiting.h"

namespace ashlar::symm {
namespace {

TEST(TimedMutexConcurrency, ExcludesOtherThreads) {
  TimedMutex turn;
  int count = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 1000; ++round) {
        if (!turn.try_lock_until(round % 2 == 0 ? Deadline::never()
                                                : Deadline::after(contract::kDeadline))) {
          return;
        }
        const TimedLock lock(turn);
        ++count;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(count, 4000);
}

TEST(TimedMutexConcurrency, TryLockFailsAtTheDeadline) {
  TimedMutex turn;
  if (!turn.try_lock_until(Deadline::never())) FAIL();
  const TimedLock lock(turn);
  std::thread other([&turn] {
    for (const std::chrono::milliseconds timeout :
         {std::chrono::milliseconds(0), std::chrono::milliseconds(20)}) {
      const bool is_taken = turn.try_lock_until(Deadline::after(timeout));
      EXPECT_FALSE(is_taken);
    }
  });
  other.join();
}

TEST(TimedMutexConcurrency, TryLockSucceedsWithPastDeadlineIfFree) {
  TimedMutex turn;
  const bool is_taken = turn.try_lock_until(Deadline::after(std::chrono::seconds(-1)));
  if (!is_taken) FAIL();
  const TimedLock lock(turn);
}

}  // namespace
}  // namespace ashlar::symm
