// SPDX-License-Identifier: Apache-2.0
//
// The algorithms of signals and barriers, as templates over `Words` (see core/shared_words.h).
// signals.cc and barrier.cc instantiate them for real memory; a test instantiates them for a model
// that explores all interleavings.
//
// Stores that wake sleepers are seq_cst, although release would be sufficient for the data, because
// each of them is followed by a load of the sleeper count (see wait.h).
#pragma once

#include <cstdint>

#include "symm/core/rank_info.h"
#include "symm/signals/wait.h"

namespace ashlar::symm {

// Changes a slot from `from`, 0 or 1, to the other value. If the slot has another value, returns
// false and sets `*seen` to that value. The load comes before the compare-and-swap so that waiting
// ranks only share the cache line instead of taking it from each other.
template <typename Words>
bool flip_slot(Words& memory, WaitWord<uint32_t> slot, uint32_t from, uint32_t* seen) {
  *seen = memory.load(slot.value, std::memory_order_relaxed);
  if (*seen != from) return false;
  const uint32_t to = 1 - from;
  if (!memory.compare_exchange(slot.value, from, to, std::memory_order_seq_cst)) {
    *seen = to;
    return false;
  }
  wake_sleepers(memory, slot);
  return true;
}

// A slot holds one signal: `fill_slot` waits until the previous signal has been taken.
template <typename Words>
WaitResult fill_slot(Words& memory, WaitWord<uint32_t> slot, WaitLimits& limits) {
  return wait_until(
      memory, slot, [&](uint32_t* seen) { return flip_slot(memory, slot, 0, seen); }, limits);
}

template <typename Words>
WaitResult drain_slot(Words& memory, WaitWord<uint32_t> slot, WaitLimits& limits) {
  return wait_until(
      memory, slot, [&](uint32_t* seen) { return flip_slot(memory, slot, 1, seen); }, limits);
}

template <typename Words>
void add_to_counter(Words& memory, WaitWord<uint64_t> counter, uint64_t amount) {
  memory.add(counter.value, amount, std::memory_order_seq_cst);
  wake_sleepers(memory, counter);
}

template <typename Words>
WaitResult wait_for_counter(Words& memory, WaitWord<uint64_t> counter, uint64_t wanted,
                            WaitLimits& limits) {
  return wait_until(
      memory, counter,
      [&](uint64_t* seen) {
        *seen = memory.load(counter.value, std::memory_order_acquire);
        return *seen >= wanted;
      },
      limits);
}

template <typename Words>
void announce(Words& memory, WaitWord<uint64_t> word, uint64_t value) {
  memory.store(word.value, value, std::memory_order_seq_cst);
  wake_sleepers(memory, word);
}

// The barriers of a channel are numbered. A rank completes barrier n when all other ranks have
// announced n to it. Each word has one writer and only grows, so announcing n again has no effect:
// a barrier that timed out is completed by calling it again. `word_at(owner, source)` is the word
// in the pad of `owner` that `source` writes. In its own word, a rank counts the barriers it has
// completed.
template <typename Words, typename WordAt>
WaitResult all_to_all_barrier(Words& memory, RankInfo me, const WordAt& word_at,
                              WaitLimits& limits) {
  const auto [rank, world_size] = me;
  uint64_t* finished = word_at(rank, rank).value;
  const uint64_t number = memory.load(finished, std::memory_order_relaxed) + 1;
  for (int step = 1; step < world_size; ++step) {
    const int peer = (rank + step) % world_size;
    announce(memory, word_at(peer, rank), number);
  }
  for (int step = 1; step < world_size; ++step) {
    const int peer = (rank + step) % world_size;
    const WaitResult end = wait_for_counter(memory, word_at(rank, peer), number, limits);
    if (end != WaitResult::kDone) return end;
  }
  memory.store(finished, number, std::memory_order_relaxed);
  return WaitResult::kDone;
}

// In round k a rank announces to rank + 2^k and waits for rank - 2^k. After log2(W) rounds it has
// received announcements from all ranks, directly or indirectly. The sources of the rounds are
// distinct ranks, so the algorithm uses the same words as the all-to-all barrier.
template <typename Words, typename WordAt>
WaitResult dissemination_barrier(Words& memory, RankInfo me, const WordAt& word_at,
                                 WaitLimits& limits) {
  const auto [rank, world_size] = me;
  uint64_t* finished = word_at(rank, rank).value;
  const uint64_t number = memory.load(finished, std::memory_order_relaxed) + 1;
  for (int distance = 1; distance < world_size; distance *= 2) {
    const int to = (rank + distance) % world_size;
    const int from = (rank + world_size - distance) % world_size;
    announce(memory, word_at(to, rank), number);
    const WaitResult end = wait_for_counter(memory, word_at(rank, from), number, limits);
    if (end != WaitResult::kDone) return end;
  }
  memory.store(finished, number, std::memory_order_relaxed);
  return WaitResult::kDone;
}

}  // namespace ashlar::symm
