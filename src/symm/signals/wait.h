// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a word of a pad: spins, then yields, then sleeps; never past the deadline, and not
// for ranks of a group that has failed.
//
// Whoever changes a word must look whether somebody sleeps on it, and one look must be enough:
//
//   waiter                               waker
//   sleepers += 1                        word = new
//   sleep if word is still as seen       wake if sleepers != 0
//
// All four are sequentially consistent (the system's own look at the word is), so at least one of
// the two sees what the other did. Nobody sleeping, the waker's look is at the cache line that it
// has just written. A waiter that is killed asleep leaves the count too high, which costs its group
// needless wake-ups and nothing else.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "ashlar/deadline.h"
#include "symm/core/failure.h"
#include "symm/core/shared_words.h"

namespace ashlar::symm {

// A word that ranks wait on, and how many of them sleep until it changes.
template <typename T>
struct WaitWord {
  T* value = nullptr;
  uint32_t* sleepers = nullptr;
};

// How long a waiter stays awake.
struct SpinPolicy {
  int spin_count = 0;
  int yield_count = 0;

  // Spinning is for ranks that all have a core: with fewer cores it keeps those from running that
  // one waits for.
  static SpinPolicy of(int world_size, int core_count);
  // For this process, on the cores that it may use.
  static SpinPolicy of(int world_size);
};

// What ends a wait before its time.
struct WaitLimits {
  const Failure& failure;
  Deadline deadline;
  SpinPolicy spin_policy{};
  // When spinning was given up for the first time, for messages: those that succeed before never
  // read a clock.
  Deadline::Clock::time_point began{};

  std::chrono::nanoseconds waited() const { return Deadline::Clock::now() - began; }
};

enum class WaitResult { kDone, kTimeout, kFailed };

// So many looks come without a pause: who is only as late as a line of the cache takes from one
// core to another is not waited for longer than that.
inline constexpr int kEagerLooks = 100;

// Failures are reported within the process only, and wake nobody.
inline constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::milliseconds(5);

template <typename Words, typename T>
void wake_sleepers(Words& memory, WaitWord<T> word) {
  if (memory.load(word.sleepers, std::memory_order_seq_cst) != 0) {
    memory.wake_all(futex_word(word.value));
  }
}

// `attempt(T* seen)` tries to get what is waited for; if that fails, it says which value it saw.
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
    memory.sleep(futex_word(word.value), static_cast<uint32_t>(seen),
                 std::min(left, kLongestSleep));
  }
  memory.add(word.sleepers, uint32_t{0} - 1, std::memory_order_seq_cst);
  return end;
}

// As above. Succeeds if the first attempt does, whatever the limits say.
template <typename Words, typename T, typename Attempt>
WaitResult wait_until(Words& memory, WaitWord<T> word, Attempt attempt, WaitLimits& limits) {
  T seen{};
  if (attempt(&seen)) return WaitResult::kDone;
  for (int spin = 0; spin < limits.spin_policy.spin_count; ++spin) {
    if (spin >= kEagerLooks) memory.pause();
    if (attempt(&seen)) return WaitResult::kDone;
  }
  if (limits.began == Deadline::Clock::time_point()) limits.began = Deadline::Clock::now();
  for (int turn = 0; turn < limits.spin_policy.yield_count; ++turn) {
    if (limits.failure.has_happened() || limits.deadline.has_passed()) break;
    const bool is_worth_it = memory.yield();
    if (attempt(&seen)) return WaitResult::kDone;
    if (!is_worth_it) break;
  }
  return wait_asleep(memory, word, attempt, limits);
}

}  // namespace ashlar::symm
