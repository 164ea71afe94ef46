// SPDX-License-Identifier: Apache-2.0
//
// A model checker: explores every interleaving of the ranks' steps on shared memory, for algorithms
// that take their memory as a template parameter (symm/signals/signal_steps.h).
//
// Each rank is a fiber that stops before every step. A depth-first search schedules the fibers and
// starts over for each order. It does not continue from a state that it has already visited; a
// state is the contents of memory, what each rank has read so far, and which ranks sleep. Only
// wake_all wakes sleepers, never a timeout, so that a lost wake-up causes a deadlock, which is
// counted.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace ashlar::symm::testing {

class Explorer;

// One rank's view of the explored memory.
class ExploredMemory {
 public:
  ExploredMemory(Explorer& explorer, int rank) : explorer_(explorer), rank_(rank) {}

  template <typename T>
  T load(const T* word, std::memory_order order) {
    if (!is_own(word, order)) yield_to_scheduler();
    return note_read(*word);
  }
  template <typename T>
  void store(T* word, T value, std::memory_order order) {
    if (!is_own(word, order)) yield_to_scheduler();
    *word = value;
  }
  // Adds to a word. Does not return the previous value, which would become part of the state.
  template <typename T>
  void add(T* word, T value, std::memory_order) {
    yield_to_scheduler();
    *word = static_cast<T>(*word + value);
    end_wait();
  }
  template <typename T>
  bool compare_exchange(T* word, T expected, T wanted, std::memory_order) {
    yield_to_scheduler();
    const bool is_expected = *word == expected;
    if (is_expected) *word = wanted;
    return note_read(is_expected);
  }
  void pause() {}
  bool yield() { return false; }
  void sleep(const uint32_t* word, uint32_t seen, std::chrono::nanoseconds);
  void wake_all(const uint32_t* word);

 private:
  // Returns whether only this rank accesses the word, so that accesses are not interleaved. This is
  // true of the rank's own barrier count, the only 64-bit word that is accessed with relaxed order.
  static bool is_own(const uint64_t*, std::memory_order order) {
    return order == std::memory_order_relaxed;
  }
  static bool is_own(const uint32_t*, std::memory_order) { return false; }
  template <typename T>
  T note_read(T value) {
    add_to_history(static_cast<uint64_t>(value));
    return value;
  }
  void yield_to_scheduler();
  void add_to_history(uint64_t value);
  // Marks the end of the current wait. Called by `add`, because a wait loop that ends uses `add` to
  // decrement the sleeper count.
  void end_wait();

  Explorer& explorer_;
  int rank_;
};

class Explorer {
 public:
  struct Trial {
    // Returns the contents of shared memory, which are part of the state.
    std::function<std::string()> contents;
    // The program of each rank. Must not own resources, because a trial may be abandoned.
    std::function<void(int rank, ExploredMemory& memory)> body;
  };
  struct Findings {
    size_t state_count = 0;
    size_t finished_count = 0;  // interleavings in which all ranks finished
    size_t deadlock_count = 0;
  };

  // `begin` creates a trial in its initial state.
  Findings explore(int world_size, const std::function<Trial()>& begin);

 private:
  friend class ExploredMemory;

  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    uint64_t history = 0;      // hash of what the rank has read
    uint64_t first_sleep = 0;  // history at the first sleep of the current wait, or 0
    const uint32_t* asleep_on = nullptr;
    bool is_done = false;
  };
  struct Choice {
    size_t index = 0;  // index into the list of ready fibers
    size_t count = 0;
  };
  enum class Outcome { kFinished, kDeadlock, kVisitedBefore };

  static void enter_fiber();
  Outcome run_once(const std::function<Trial()>& begin);
  void start_fibers();
  std::vector<size_t> ready_fibers() const;
  uint64_t state_key() const;
  bool next_order();

  ucontext_t scheduler_{};
  Trial trial_;
  std::vector<Fiber> fibers_;
  size_t running_fiber_ = 0;
  std::vector<Choice> choices_;
  std::unordered_set<uint64_t> visited_;
};

}  // namespace ashlar::symm::testing
