// SPDX-License-Identifier: Apache-2.0
//
// How kernels wait, and how they say what went wrong. A kernel never traps: that would take the
// device from the whole process.
#pragma once

#include "symm/backends/cuda/kernels/arguments.h"
#include "symm/backends/cuda/kernels/machine.h"

namespace ashlar::symm::kernels {

enum class Waited : uint32_t { kDone, kTimeout, kFailed, kSkipped };

struct SpinPolicy {
  const uint32_t* has_failed;
  uint64_t began_ns;
  uint64_t timeout_ns;  // 0: for ever
};

// `attempt()` tries to get what is waited for. Succeeds if the first does, whatever the time is.
template <typename Attempt>
ASHLAR_ON_DEVICE Waited wait_until(const Attempt& attempt, const SpinPolicy& patience) {
  // Whether the group has failed is asked across the bus: rarely.
  constexpr uint32_t kTurnsBetweenLooks = 16;
  for (uint32_t turn = 0;; ++turn) {
    if (attempt()) return Waited::kDone;
    if (turn % kTurnsBetweenLooks == 0) {
      if (load(patience.has_failed) != 0) return Waited::kFailed;
      // Signed: the clock of another multiprocessor may be a little behind.
      const auto waited_ns = static_cast<int64_t>(now_ns() - patience.began_ns);
      const bool is_late =
          patience.timeout_ns != 0 && waited_ns >= static_cast<int64_t>(patience.timeout_ns);
      if (is_late) return Waited::kTimeout;
    }
    rest(turn);
  }
}

// --- ends ---------------------------------------------------------------------------------------

ASHLAR_ON_DEVICE Board* board_of(const Common& own) { return host_memory<Board>(own.board); }
ASHLAR_ON_DEVICE Desk* desk_of(const Common& own) { return device_memory<Desk>(own.desk); }

// Something of the group ended badly in a stream, and nobody was told yet. What was told is read
// first: an older claim beside it would hold up what is free.
ASHLAR_ON_DEVICE bool is_held_up(const Common& own) {
  const uint32_t told = load_acquire(&board_of(own)->told);
  return told != load(&desk_of(own)->claim);
}

ASHLAR_ON_DEVICE void write_ending(Ending* to, const Ending& ending, uint32_t state) {
  to->kind = ending.kind;
  to->act = ending.act;
  to->rank = ending.rank;
  to->channel = ending.channel;
  to->waited_ns = ending.waited_ns;
  to->value = ending.value;
  to->called = ending.called;
  to->expected = ending.expected;
  for (uint32_t i = 0; i < kMostRanks / 32; ++i) to->missing[i] = ending.missing[i];
  store_release(&to->state, state);
}

// To whoever waits for this call, or to the group: there the first one counts, and what is on the
// board stays until the host has read it.
ASHLAR_ON_DEVICE void tell(const Common& own, const Ending& ending) {
  if (own.record != 0) {
    write_ending(&host_memory<Record>(own.record)->ending, ending, 1);
    return;
  }
  if (ending.kind == End::kSkipped) return;
  Board* board = board_of(own);
  const uint32_t told = load(&board->told);
  if (compare_exchange(&desk_of(own)->claim, told, told + 1)) {
    write_ending(&board->ending, ending, told + 1);
  }
}

}  // namespace ashlar::symm::kernels
