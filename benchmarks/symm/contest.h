// SPDX-License-Identifier: Apache-2.0
//
// Ways to do the same, measured in turns within one run: what else the machine does then meets all
// of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bounds.h"
#include "symm/core/shared_words.h"

namespace ashlar::symm {

struct Contestant {
  const char* name;
  std::function<void()> act;
  // How many times as long as the first it may take; empty: however long.
  std::optional<double> most{};
};

// How the ranks of a contest go on together.
struct ContestPlan {
  int rank = 0;  // rank 0 prints
  int rounds = 9;
  bool by_fastest = false;       // of the rounds the fastest counts, not the median
  std::string only{};            // contests that have this in their title; empty: all
  std::function<void()> meet{};  // before each turn
  Bounds* bounds = nullptr;      // what is held to them; null: nothing is

  bool has(const std::string& title) const { return title.find(only) != std::string::npos; }
};

// Prints the medians of the rounds, or the fastest, by the clock of rank 0. Ratios are to the first
// contestant, and those with a bound are held to it.
inline void hold_contest(const ContestPlan& plan, const std::string& title, int turns,
                         const std::vector<Contestant>& contestants) {
  if (!plan.has(title)) return;
  std::vector<std::vector<double>> found(contestants.size());
  for (int round = 0; round <= plan.rounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      plan.meet();
      const auto begin = std::chrono::steady_clock::now();
      for (int turn = 0; turn < turns; ++turn) contestants[i].act();
      const std::chrono::duration<double, std::micro> taken =
          std::chrono::steady_clock::now() - begin;
      if (round > 0) found[i].push_back(taken.count() / turns);  // the first one warms up
    }
  }
  if (plan.rank != 0) return;
  std::printf("%-22s", title.c_str());
  double first = 0;
  for (size_t i = 0; i < contestants.size(); ++i) {
    std::sort(found[i].begin(), found[i].end());
    const double taken = found[i][plan.by_fastest ? 0 : found[i].size() / 2];
    if (i == 0) first = taken;
    std::printf("  %s %.3f us", contestants[i].name, taken);
    if (i == 0) continue;
    const double ratio = taken / first;
    std::printf(" (%.2f", ratio);
    const std::optional<double>& most = contestants[i].most;
    if (plan.bounds != nullptr && most) {
      const bool holds = plan.bounds->holds(title, ratio, *most);
      std::printf(holds ? " <= %.2f" : " EXCEEDS %.2f", *most);
    }
    std::printf(")");
  }
  std::printf("\n");
  std::fflush(stdout);
}

// Compare-and-swap until it works, and nothing else: no deadline, no failure, no sleep. With more
// ranks than cores it yields, or it would never end. `slots` has a line for each source at each
// rank, zero at first.
inline void plain_barrier(const std::vector<std::byte*>& slots, int rank, bool must_yield) {
  const int ranks = static_cast<int>(slots.size());
  const auto swap = [&](int owner, int source, uint32_t from, uint32_t to) {
    std::byte* line = slots[static_cast<size_t>(owner)] + 64 * source;
    std::atomic_ref<uint32_t> slot(*reinterpret_cast<uint32_t*>(line));
    uint32_t expected = from;
    while (!slot.compare_exchange_weak(expected, to)) {
      expected = from;
      if (must_yield) SharedWords::yield();
    }
  };
  for (int step = 1; step < ranks; ++step) swap((rank + step) % ranks, rank, 0, 1);
  for (int step = 1; step < ranks; ++step) swap(rank, (rank + step) % ranks, 1, 0);
}

}  // namespace ashlar::symm
