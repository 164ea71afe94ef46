// SPDX-License-Identifier: Apache-2.0
//
// Litmus tests of memory order on this CPU: message passing and store buffering through the signal
// primitives. Each test makes ten million iterations (100,000 under sanitizers), or the number in
// ASHLAR_LITMUS_TURNS.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "symm/signals/barrier.h"
#include "symm/signals/signal_steps.h"
#include "unit/symm/signals/ranks.h"

namespace ashlar::symm {
namespace {

using testing::RankMemory;
using testing::RankPads;

#if defined(ASHLAR_SANITIZED)
constexpr int kUsualTurns = 100'000;
#else
constexpr int kUsualTurns = 10'000'000;
#endif

// The number of signals in a batch. Without batches, two ranks that share a core would hardly make
// progress.
constexpr int kBatch = 1000;

// Returns the number of turns, a multiple of kBatch, at most 2'000'000'000.
int turn_count() {
  const char* wanted = std::getenv("ASHLAR_LITMUS_TURNS");
  const long turns = wanted == nullptr ? kUsualTurns : std::strtol(wanted, nullptr, 10);
  const int whole = static_cast<int>(std::clamp(turns, 1L, 2'000'000'000L));
  return std::max(whole / kBatch, 1) * kBatch;
}

// The writer stores data and then signals; a reader that sees the signal must see the data.
// A slot accepts the signal of a turn only after the reader has consumed the signal of kBatch turns
// earlier. The reader may then still be in the previous batch but has finished the one before it,
// so with three batches of messages in rotation the writer never overwrites an unread message.
TEST(LitmusConcurrency, MessagePassingBySignals) {
  const int turns = turn_count();
  const RankPads memory(2);
  RankMemory user(2, sizeof(uint32_t) * 2 * kBatch);
  std::vector<int64_t> messages(3 * kBatch);
  testing::run_as_threads(2, [&](int rank) {
    const Failure failure;
    const SignalSlots slots = *memory.pads_of(rank).user_slots(user.bytes(), user.bases());
    for (int turn = 0; turn < turns; ++turn) {
      int64_t& message = messages[static_cast<size_t>(turn % (3 * kBatch))];
      if (rank == 0) {
        message = turn;
        ASSERT_TRUE(put_signal(slots, 1, turn % kBatch, {failure}).ok());
      } else {
        ASSERT_TRUE(wait_signal(slots, 0, turn % kBatch, {failure}).ok());
        ASSERT_EQ(message, turn);
      }
    }
  });
}

TEST(LitmusConcurrency, MessagePassingByCounters) {
  const int turns = turn_count();
  const RankPads memory(2);
  std::vector<int64_t> messages(2 * kBatch);
  testing::run_as_threads(2, [&](int rank) {
    const Failure failure;
    const SignalPads pads = memory.pads_of(rank);
    for (int turn = 0; turn < turns; ++turn) {
      int64_t& message = messages[static_cast<size_t>(turn % (2 * kBatch))];
      const bool is_batch_end = turn % kBatch == kBatch - 1;
      if (rank == 0) {
        message = turn;
        ASSERT_TRUE(add_signal(pads, 1, 0, 1).ok());
        const auto read_count = static_cast<uint64_t>(turn + 1 - kBatch);
        if (is_batch_end && turn > kBatch) {
          ASSERT_TRUE(wait_for_value(pads, 1, 0, read_count, {failure}).ok());
        }
      } else {
        ASSERT_TRUE(wait_for_value(pads, 0, 0, static_cast<uint64_t>(turn + 1), {failure}).ok());
        ASSERT_EQ(message, turn);
        if (is_batch_end) {
          ASSERT_TRUE(add_signal(pads, 0, 0, kBatch).ok());
        }
      }
    }
  });
}

// Each rank writes one word and reads the other rank's word. At least one rank must see the other's
// write; otherwise a rank could sleep forever. The words are on separate cache lines, so that the
// CPU can delay the stores.
TEST(LitmusConcurrency, StoreBufferingIsSequentiallyConsistent) {
  struct alignas(64) Line {
    uint32_t value = 0;
    bool has_seen_peer = false;
  };
  const auto rounds = static_cast<uint32_t>(turn_count() / kBatch);
  const RankPads memory(2);
  std::vector<Line> lines[2] = {std::vector<Line>(kBatch), std::vector<Line>(kBatch)};
  testing::run_as_threads(2, [&](int rank) {
    const Failure failure;
    const SignalPads pads = memory.pads_of(rank);
    std::vector<Line>& mine = lines[rank];
    std::vector<Line>& theirs = lines[1 - rank];
    for (uint32_t round = 1; round <= rounds; ++round) {
      for (size_t i = 0; i < kBatch; ++i) {
        SharedWords::store(&mine[i].value, round, std::memory_order_seq_cst);
        mine[i].has_seen_peer =
            SharedWords::load(&theirs[i].value, std::memory_order_seq_cst) == round;
      }
      ASSERT_TRUE(barrier(pads, 0, {failure}).ok());
      for (size_t i = 0; i < kBatch; ++i)
        ASSERT_TRUE(mine[i].has_seen_peer || theirs[i].has_seen_peer);
      ASSERT_TRUE(barrier(pads, 0, {failure}).ok());
    }
  });
}

}  // namespace
}  // namespace ashlar::symm
