// SPDX-License-Identifier: Apache-2.0
//
// Tests waiting on a word: deadlines, failures and wake-ups.
#include "symm/signals/wait.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "unit/symm/signals/ranks.h"

namespace ashlar::symm {
namespace {

// Operates on real memory, and counts the system calls that sleep and wake.
struct CountingMemory : SharedWords {
  void wake_all(const uint32_t* word) {
    ++wake_count;
    SharedWords::wake_all(word);
  }
  void sleep(const uint32_t* word, uint32_t seen, std::chrono::nanoseconds at_most) {
    ++sleep_count;
    SharedWords::sleep(word, seen, at_most);
  }
  int wake_count = 0;
  int sleep_count = 0;
};

struct Words {
  uint32_t value = 0;
  uint32_t sleepers = 0;
  WaitWord<uint32_t> watched() { return {.value = &value, .sleepers = &sleepers}; }
};

// Waits until the word is nonzero.
WaitResult wait_for_word(CountingMemory& memory, Words& words, WaitLimits limits) {
  return wait_until(
      memory, words.watched(),
      [&](uint32_t* seen) {
        *seen = memory.load(&words.value, std::memory_order_acquire);
        return *seen != 0;
      },
      limits);
}

TEST(Wait, SucceedsImmediatelyEvenPastTheDeadline) {
  Failure failure;
  failure.report(Status::peer_lost("rank 1 died"));
  CountingMemory memory;
  Words words{.value = 1};
  const Deadline past = Deadline::after(std::chrono::nanoseconds(0));
  EXPECT_EQ(wait_for_word(memory, words, {.failure = failure, .deadline = past}),
            WaitResult::kDone);
}

TEST(Wait, EndsAtTheDeadlineAndRestoresTheSleeperCount) {
  const Failure failure;
  CountingMemory memory;
  Words words;
  // The deadline is late enough to reach the sleep on a slow machine.
  const Deadline deadline = Deadline::after(std::chrono::milliseconds(300));
  EXPECT_EQ(wait_for_word(memory, words, {.failure = failure, .deadline = deadline}),
            WaitResult::kTimeout);
  EXPECT_GT(memory.sleep_count, 0);
  EXPECT_EQ(words.sleepers, 0);
}

TEST(Wait, NeverSleepsPastTheDeadline) {
  const Failure failure;
  struct Memory : CountingMemory {
    void sleep(const uint32_t* word, uint32_t seen, std::chrono::nanoseconds at_most) {
      longest = std::max(longest, at_most);
      CountingMemory::sleep(word, seen, at_most);
    }
    std::chrono::nanoseconds longest{};
  } memory;
  Words words;
  WaitLimits limits{.failure = failure,
                    .deadline = Deadline::after(std::chrono::microseconds(500))};
  EXPECT_EQ(wait_until(
                memory, words.watched(), [](uint32_t*) { return false; }, limits),
            WaitResult::kTimeout);
  EXPECT_LE(memory.longest, std::chrono::microseconds(500));
}

TEST(WaitConcurrency, SleeperWakesWhenTheGroupFails) {
  Failure failure;
  CountingMemory memory;
  Words words;
  testing::run_as_threads(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_EQ(wait_for_word(memory, words, {.failure = failure, .deadline = long_deadline()}),
                WaitResult::kFailed);
      return;
    }
    while (SharedWords::load(&words.sleepers, std::memory_order_seq_cst) == 0) {
    }
    failure.report(Status::peer_lost("rank 1 died"));
  });
  EXPECT_EQ(words.sleepers, 0);
}

TEST(Wait, WakerMakesNoSystemCallWithoutSleepers) {
  CountingMemory memory;
  Words words;
  wake_sleepers(memory, words.watched());
  EXPECT_EQ(memory.wake_count, 0);
  words.sleepers = 1;
  wake_sleepers(memory, words.watched());
  EXPECT_EQ(memory.wake_count, 1);
}

TEST(Wait, WakesSleepersInOtherProcesses) {
  testing::RankMemory memory(1, 64);
  auto* words = reinterpret_cast<Words*>(memory.memory_of(0));
  testing::run_as_processes(2, [&](int rank) {
    if (rank == 1) {
      // The sleep is much longer than the alarm that ends this process, so only a wake-up ends it
      // in time.
      SharedWords::add(&words->sleepers, 1u, std::memory_order_seq_cst);
      while (SharedWords::load(&words->value, std::memory_order_acquire) == 0) {
        SharedWords::sleep(&words->value, 0, std::chrono::hours(1));
      }
      return;
    }
    while (SharedWords::load(&words->sleepers, std::memory_order_seq_cst) == 0) {
      SharedWords::yield();
    }
    // The other process probably sleeps by now. If it sleeps later, the kernel sees the changed
    // word and does not let it sleep.
    ::usleep(20'000);
    SharedWords::store(&words->value, 1u, std::memory_order_seq_cst);
    CountingMemory waker;
    wake_sleepers(waker, words->watched());
  });
}

TEST(Wait, SpinsOnlyIfEveryRankHasACore) {
  EXPECT_GT(SpinPolicy::of(2, 2).spin_count, 0);
  EXPECT_EQ(SpinPolicy::of(8, 2).spin_count, 0);
  EXPECT_GT(SpinPolicy::of(8, 2).yield_count, 0);
}

TEST(Wait, YieldsOnlyWhileEffective) {
  struct Memory : CountingMemory {
    bool yield() { return ++yield_count < 3; }
    // The word never changes, so only this failure ends the wait.
    void sleep(const uint32_t*, uint32_t, std::chrono::nanoseconds) {
      failure.report(Status::peer_lost("rank 1 died"));
    }
    Failure failure;
    int yield_count = 0;
  } memory;
  Words words;
  WaitLimits limits{.failure = memory.failure,
                    .deadline = long_deadline(),
                    .spin_policy = {.spin_count = 5, .yield_count = 40}};
  EXPECT_EQ(wait_until(
                memory, words.watched(), [](uint32_t*) { return false; }, limits),
            WaitResult::kFailed);
  EXPECT_EQ(memory.yield_count, 3);
}

TEST(Wait, SleepsOnTheLowHalfOfACounter) {
  const uint64_t counter = 0x1'0000'0007;
  EXPECT_EQ(*futex_word(&counter), 7u);
}

}  // namespace
}  // namespace ashlar::symm
