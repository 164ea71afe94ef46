// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a word of a signal pad: spins, then yields, then sleeps on a futex. A wait ends at
// its deadline, or when the group fails.
//
// A rank that changes a word wakes the sleepers of the word, if any:
//
//   waiter                               waker
//   sleepers += 1                        word = new
//   sleep if word is unchanged           wake if sleepers != 0
//
// All four steps are sequentially consistent (including the kernel's check of the word), so the
// waiter sees the new word or the waker sees the sleeper, and no wake-up is lost. If nothing
// sleeps on a word of a group pad, the waker only reads the cache line that it has just written. A
// waiter that is killed while asleep leaves `sleepers` too high, which costs unnecessary wake-ups
// and has no other effect.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "ashlar/deadline.h"
#include "symm/core/failure.h"
#include "symm/core/shared_words.h"

namespace ashlar::symm {

// A word that threads wait on, and the count of its sleepers. Several words of users' pads share
// one count (PadLine::user_sleepers).
template <typename T>
struct WaitWord {
  T* value = nullptr;
  uint32_t* sleepers = nullptr;
};

// How long a waiter spins and yields before it sleeps.
struct SpinPolicy {
  int spin_count = 0;
  int yield_count = 0;

  // Spins only if every rank has a core. With fewer cores, spinning would keep the awaited ranks
  // from running.
  static SpinPolicy of(int world_size, int core_count);
  // Uses the cores that this process may run on.
  static SpinPolicy of(int world_size);
};

// The conditions that end a wait early, and how to wait.
struct WaitLimits {
  const Failure& failure;
  Deadline deadline;
  SpinPolicy spin_policy{};
  // The time from which `waited` counts. If the caller has not set it, wait_until sets it when
  // spinning ends, so that waits that succeed while spinning never read the clock.
  Deadline::Clock::time_point began{};

  std::chrono::nanoseconds waited() const { return Deadline::Clock::now() - began; }
};

enum class WaitResult { kDone, kTimeout, kFailed };

// The number of spins at the start of a wait that execute no pause instruction. The instruction
// would prolong a wait as short as one cache line transfer.
inline constexpr int kSpinsWithoutPause = 100;

// The maximum length of one sleep. A sleeper has to check for failures itself, because they do not
// wake it.
inline constexpr std::chrono::nanoseconds kMaxSleep = std::chrono::milliseconds(5);

template <typename Words, typename T>
void wake_sleepers(Words& memory, WaitWord<T> word) {
  if (memory.load(word.sleepers, std::memory_order_seq_cst) != 0) {
    memory.wake_all(futex_word(word.value));
  }
}

// Sleeps until the awaited condition holds or a limit is reached. `attempt(T* seen)` returns
// whether the condition holds. If not, it sets `*seen` to the value of the word.
template <typename Words, typename T, typename Attempt>
WaitResult wait_asleep(Words& memory, WaitWord<T> word, Attempt attempt, WaitLimits& limits) {
  memory.add(word.sleepers, uint32_t{1}, std::memory_order_seq_cst);
  WaitResult end = WaitResult::kDone;
  T seen{};
  while (!attempt(&seen)) {
    if (limits.failure.has_happened()) {
      end = WaitResult::kFailed;
      break;
    }
    const std::chrono::nanoseconds left = limits.deadline.left();
    if (left.count() == 0) {
      end = WaitResult::kTimeout;
      break;
    }
    memory.sleep(futex_word(word.value), static_cast<uint32_t>(seen), std::min(left, kMaxSleep));
  }
  memory.add(word.sleepers, uint32_t{0} - 1, std::memory_order_seq_cst);
  return end;
}

// Like wait_asleep, but spins and yields first. Returns kDone if the first attempt succeeds, even
// if a limit has been reached.
template <typename Words, typename T, typename Attempt>
WaitResult wait_until(Words& memory, WaitWord<T> word, Attempt attempt, WaitLimits& limits) {
  T seen{};
  if (attempt(&seen)) return WaitResult::kDone;
  for (int spin = 0; spin < limits.spin_policy.spin_count; ++spin) {
    if (spin >= kSpinsWithoutPause) memory.pause();
    if (attempt(&seen)) return WaitResult::kDone;
  }
  if (limits.began == Deadline::Clock::time_point()) limits.began = Deadline::Clock::now();
  for (int yield = 0; yield < limits.spin_policy.yield_count; ++yield) {
    if (limits.failure.has_happened() || limits.deadline.has_passed()) break;
    const bool is_effective = memory.yield();
    if (attempt(&seen)) return WaitResult::kDone;
    if (!is_effective) break;
  }
  return wait_asleep(memory, word, attempt, limits);
}

}  // namespace ashlar::symm
