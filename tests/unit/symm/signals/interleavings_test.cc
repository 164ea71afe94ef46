// SPDX-License-Identifier: Apache-2.0
//
// Tests of signals, counters and barriers under every interleaving: no rank may pass early, no
// signal may be received twice, no rank may sleep forever.
#include <gtest/gtest.h>

#include "symm/signals/signal_steps.h"
#include "unit/symm/signals/explorer.h"

namespace ashlar::symm {
namespace {

using testing::ExploredMemory;
using testing::Explorer;

const Failure kNoFailure;

// Returns limits without spinning, because wake-ups can get lost only when ranks sleep.
WaitLimits unlimited_wait() { return {.failure = kNoFailure, .deadline = Deadline::never()}; }

// The shared memory: a word and its sleeper count for each (owner, source), and the data that ranks
// write before they signal.
struct Shared {
  uint64_t words[3][3] = {};
  uint32_t slots[3][3] = {};
  uint32_t sleepers[3][3] = {};
  int written[3] = {};
  bool is_broken = false;

  WaitWord<uint64_t> word(int owner, int source) {
    return {.value = &words[owner][source], .sleepers = &sleepers[owner][source]};
  }
  WaitWord<uint32_t> slot(int owner, int source) {
    return {.value = &slots[owner][source], .sleepers = &sleepers[owner][source]};
  }
  std::string bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};

// Explores `body(rank, memory, shared)`. Sets `is_broken` if an interleaving violates an invariant.
template <typename Body>
Explorer::Findings explore(int world_size, Body body, bool* is_broken) {
  Shared shared;
  const Explorer::Findings found = Explorer().explore(world_size, [&]() -> Explorer::Trial {
    *is_broken = *is_broken || shared.is_broken;
    shared = Shared{};
    return {.contents = [&] { return shared.bytes(); },
            .body = [&](int rank, ExploredMemory& memory) { body(rank, memory, shared); }};
  });
  *is_broken = *is_broken || shared.is_broken;  // of the last interleaving
  return found;
}

template <typename Body>
void expect_no_violation(int world_size, Body body) {
  bool is_broken = false;
  const Explorer::Findings found = explore(world_size, body, &is_broken);
  EXPECT_FALSE(is_broken);
  EXPECT_EQ(found.deadlock_count, 0u);
  EXPECT_GT(found.finished_count, 0u);
  EXPECT_GT(found.state_count, 20u);
}

// Passes two barriers if there are two ranks, but one if there are three, to limit the number of
// states.
template <bool kIsDissemination>
void pass_barriers(int rank, int world_size, ExploredMemory& memory, Shared& shared) {
  WaitLimits limits = unlimited_wait();
  const auto words = [&](int owner, int source) { return shared.word(owner, source); };
  for (int round = 1; round <= 4 - world_size; ++round) {
    shared.written[rank] = round;
    const RankInfo me{.rank = rank, .world_size = world_size};
    const WaitResult end = kIsDissemination ? dissemination_barrier(memory, me, words, limits)
                                            : all_to_all_barrier(memory, me, words, limits);
    shared.is_broken |= end != WaitResult::kDone;
    for (int peer = 0; peer < world_size; ++peer) {
      shared.is_broken |= shared.written[peer] < round;
    }
  }
}

TEST(Interleavings, AllToAllBarrierReleasesNoRankEarly) {
  for (const int world_size : {2, 3}) {
    expect_no_violation(world_size, [=](int rank, ExploredMemory& memory, Shared& shared) {
      pass_barriers<false>(rank, world_size, memory, shared);
    });
  }
}

TEST(Interleavings, DisseminationBarrierReleasesNoRankEarly) {
#if defined(ASHLAR_SANITIZED)
  const int most_ranks = 2;  // three ranks have 250,000 states
#else
  const int most_ranks = 3;
#endif
  for (int world_size = 2; world_size <= most_ranks; ++world_size) {
    expect_no_violation(world_size, [=](int rank, ExploredMemory& memory, Shared& shared) {
      pass_barriers<true>(rank, world_size, memory, shared);
    });
  }
}

// Two signals are sent through one slot. `written` counts the signals that each rank has handled.
TEST(Interleavings, PutAndWaitDeliverEverySignalOnce) {
  expect_no_violation(2, [](int rank, ExploredMemory& memory, Shared& shared) {
    WaitLimits limits = unlimited_wait();
    for (int i = 1; i <= 2; ++i) {
      if (rank == 0) {
        shared.written[0] = i;
        shared.is_broken |= fill_slot(memory, shared.slot(1, 0), limits) != WaitResult::kDone;
        // The slot holds one signal at a time, so rank 1 has counted the previous signals.
        shared.is_broken |= shared.written[1] < i - 1;
      } else {
        // Rank 1 counts a signal before receiving it, so that rank 0 never reads too low a count.
        shared.written[1] = i;
        shared.is_broken |= drain_slot(memory, shared.slot(1, 0), limits) != WaitResult::kDone;
        shared.is_broken |= shared.written[0] < i;
      }
    }
    shared.is_broken |= rank == 1 && shared.slots[1][0] != 0;
  });
}

TEST(Interleavings, NoSignalIsLostIfTwoThreadsPutIntoOneSlot) {
  expect_no_violation(3, [](int rank, ExploredMemory& memory, Shared& shared) {
    WaitLimits limits = unlimited_wait();
    if (rank < 2) {
      shared.is_broken |= fill_slot(memory, shared.slot(2, 0), limits) != WaitResult::kDone;
      return;
    }
    for (int i = 0; i < 2; ++i) {
      shared.is_broken |= drain_slot(memory, shared.slot(2, 0), limits) != WaitResult::kDone;
    }
  });
}

TEST(Interleavings, CounterAdditionsWakeTheWaiter) {
  expect_no_violation(3, [](int rank, ExploredMemory& memory, Shared& shared) {
    WaitLimits limits = unlimited_wait();
    if (rank < 2) {
      shared.written[rank] = 1;
      add_to_counter(memory, shared.word(2, 0), 1);
      return;
    }
    shared.is_broken |= wait_for_counter(memory, shared.word(2, 0), 2, limits) != WaitResult::kDone;
    shared.is_broken |= shared.written[0] + shared.written[1] != 2;
  });
}

// Checks that the explorer detects broken algorithms.
TEST(Interleavings, FindsDeadlockOfMissingWakeUp) {
  bool is_broken = false;
  const auto forget_to_wake = [](int rank, ExploredMemory& memory, Shared& shared) {
    WaitLimits limits = unlimited_wait();
    if (rank == 0) {
      memory.add(&shared.words[1][0], uint64_t{1}, std::memory_order_seq_cst);
      return;
    }
    wait_for_counter(memory, shared.word(1, 0), 1, limits);
  };
  EXPECT_GT(explore(2, forget_to_wake, &is_broken).deadlock_count, 0u);
}

TEST(Interleavings, FindsTheDeadlockOfAnEarlySleeperCheck) {
  bool is_broken = false;
  const auto check_too_early = [](int rank, ExploredMemory& memory, Shared& shared) {
    WaitLimits limits = unlimited_wait();
    const WaitWord<uint64_t> word = shared.word(1, 0);
    if (rank == 0) {
      const bool has_sleepers = memory.load(word.sleepers, std::memory_order_seq_cst) != 0;
      memory.add(word.value, uint64_t{1}, std::memory_order_seq_cst);
      if (has_sleepers) memory.wake_all(futex_word(word.value));
      return;
    }
    wait_for_counter(memory, word, 1, limits);
  };
  EXPECT_GT(explore(2, check_too_early, &is_broken).deadlock_count, 0u);
}

TEST(Interleavings, FindsBarrierThatDoesNotWait) {
  bool is_broken = false;
  const auto do_not_wait = [](int rank, ExploredMemory& memory, Shared& shared) {
    shared.written[rank] = 1;
    announce(memory, shared.word(1 - rank, rank), 1);
    shared.is_broken |= shared.written[1 - rank] != 1;
  };
  explore(2, do_not_wait, &is_broken);
  EXPECT_TRUE(is_broken);
}

}  // namespace
}  // namespace ashlar::symm
