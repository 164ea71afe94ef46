// SPDX-License-Identifier: Apache-2.0
//
// Tries every order in which ranks can make their steps on shared memory, for algorithms that take
// their memory as a parameter (symm/signals/signal_steps.h).
//
// Each rank is a fiber that stops before every step; a depth-first search decides who goes next,
// and starts again from the beginning for each order. A state that was met before is not followed
// again: it is the contents of memory, what each rank has seen so far, and who sleeps. Sleepers are
// woken by wake_all alone, never by time, so a wake-up that gets lost is a deadlock that is found.
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

// What one rank sees of the memory that is explored.
class ExploredMemory {
 public:
  ExploredMemory(Explorer& explorer, int rank) : explorer_(explorer), rank_(rank) {}

  template <typename T>
  T load(const T* word, std::memory_order order) {
    if (!is_own(word, order)) stop();
    return saw(*word);
  }
  template <typename T>
  void store(T* word, T value, std::memory_order order) {
    if (!is_own(word, order)) stop();
    *word = value;
  }
  // What was there before is not handed out, so that ranks cannot differ by it.
  template <typename T>
  void add(T* word, T value, std::memory_order) {
    stop();
    *word = static_cast<T>(*word + value);
    end_of_sleeping();
  }
  template <typename T>
  bool compare_exchange(T* word, T expected, T wanted, std::memory_order) {
    stop();
    const bool is_expected = *word == expected;
    if (is_expected) *word = wanted;
    return saw(is_expected);
  }
  void pause() {}
  bool yield() { return false; }
  void sleep(const uint32_t* word, uint32_t seen, std::chrono::nanoseconds);
  void wake_all(const uint32_t* word);

 private:
  // A rank's own count of its barriers, which nobody else looks at: no step worth trying.
  static bool is_own(const uint64_t*, std::memory_order order) {
    return order == std::memory_order_relaxed;
  }
  static bool is_own(const uint32_t*, std::memory_order) { return false; }
  template <typename T>
  T saw(T value) {
    note(static_cast<uint64_t>(value));
    return value;
  }
  void stop();
  void note(uint64_t value);
  // Of the loop around it: what counts the sleepers is an addition.
  void end_of_sleeping();

  Explorer& explorer_;
  int rank_;
};

class Explorer {
 public:
  struct Trial {
    // Words that are part of the state, as bytes.
    std::function<std::string()> contents;
    // What each rank does. Must not own anything: a trial may be dropped halfway.
    std::function<void(int rank, ExploredMemory& memory)> act;
  };
  struct Findings {
    size_t state_count = 0;
    size_t finished_count = 0;  // orders in which all ranks came to their end
    size_t deadlock_count = 0;
  };

  // `begin` makes a fresh trial, with its words as they are at first.
  Findings explore(int world_size, const std::function<Trial()>& begin);

 private:
  friend class ExploredMemory;

  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    uint64_t history = 0;      // of what it saw
    uint64_t first_sleep = 0;  // the history when it slept first in this wait, or 0
    const uint32_t* asleep_on = nullptr;
    bool is_done = false;
  };
  struct Choice {
    size_t taken = 0;
    size_t count = 0;
  };
  enum class End { kFinished, kDeadlock, kMetBefore };

  static void enter_fiber();
  End run_once(const std::function<Trial()>& begin);
  void start_fibers();
  std::vector<size_t> ready_fibers() const;
  uint64_t state_key() const;
  bool next_order();

  ucontext_t scheduler_{};
  Trial trial_;
  std::vector<Fiber> fibers_;
  size_t running_ = 0;
  std::vector<Choice> choices_;
  std::unordered_set<uint64_t> met_;
};

}  // namespace ashlar::symm::testing
