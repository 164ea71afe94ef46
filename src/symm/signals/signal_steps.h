// SPDX-License-Identifier: Apache-2.0
//
// Signals and barriers, step by step, over any `Memory` (shared_memory.h). signals.cc and
// barrier.cc run these over the machine's; a test runs the very same over a memory that tries all
// orders.
//
// The orders are seq_cst where release or acquire would do for the data, because of the sleepers
// (wait.h): a step that changes a word is followed by a look at who sleeps on it.
#pragma once

#include <cstdint>

#include "symm/core/rank_info.h"
#include "symm/signals/wait.h"

namespace ashlar::symm {

// A slot is a mailbox for one signal: putting waits until the one before was taken.
// The first look is without exclusive access, so that waiters do not take the line from each other.
template <typename Words>
bool exchange_slot(Words& memory, WaitWord<uint32_t> slot, uint32_t from, uint32_t* seen) {
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

template <typename Words>
WaitResult put_in_slot(Words& memory, WaitWord<uint32_t> slot, WaitLimits& limits) {
  return wait_until(
      memory, slot, [&](uint32_t* seen) { return exchange_slot(memory, slot, 0, seen); }, limits);
}

template <typename Words>
WaitResult take_from_slot(Words& memory, WaitWord<uint32_t> slot, WaitLimits& limits) {
  return wait_until(
      memory, slot, [&](uint32_t* seen) { return exchange_slot(memory, slot, 1, seen); }, limits);
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

// A barrier is a number: the n-th of a channel is over for a rank once all have announced n to it.
// Each word has one writer and only grows, so announcing n again changes nothing: a barrier that
// ended early is finished by starting it again. `words(owner, source)` is where `source` tells
// `owner`; on its own word, a rank notes the barriers it has finished.
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

// In round k a rank tells the one 2^k further on, and hears the one 2^k before: after log2(W)
// rounds it has heard of all, directly or not. The sources of the rounds are different ranks, so
// the words are those of the other barrier.
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
