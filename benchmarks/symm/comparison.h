// SPDX-License-Identifier: Apache-2.0
//
// Compares several implementations of one operation. The implementations run interleaved in one
// process, so that other load on the machine affects all of them equally.
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

#include "symm/core/shared_words.h"

namespace ashlar::symm {

inline constexpr size_t kMaxBytes = size_t{16} << 20;

// Returns the number of iterations per round, from 4 to `max_iterations`. Within these bounds,
// rounds with different sizes move about the same number of bytes.
inline int iterations_for(size_t bytes, size_t max_iterations) {
  return static_cast<int>(std::clamp<size_t>(kMaxBytes / bytes, 4, max_iterations));
}

// Checks time ratios against their limits and collects violations.
class RatioLimits {
 public:
  // Returns false and records a violation if `ratio` exceeds `max_ratio`.
  bool check(const std::string& title, double ratio, double max_ratio) {
    ++checked_count_;
    if (ratio <= max_ratio) return true;
    violations_.push_back({title, ratio, max_ratio});
    return false;
  }

  bool all_met() const { return violations_.empty(); }

  void print() const {
    std::printf("%d ratios have a limit, %zu exceed it\n", checked_count_, violations_.size());
    for (const Violation& each : violations_) {
      std::printf("  %s: %.2f (limit %.2f)\n", each.title.c_str(), each.ratio, each.max_ratio);
    }
  }

 private:
  struct Violation {
    std::string title{};
    double ratio = 0;
    double max_ratio = 0;
  };

  int checked_count_ = 0;
  std::vector<Violation> violations_;
};

struct Candidate {
  const char* name;
  std::function<void()> operation;
  // Limit of the time relative to the first candidate; unset: no limit.
  std::optional<double> max_ratio{};
};

// Settings of a comparison, equal on all ranks except for `rank`.
struct ComparisonPlan {
  int rank = 0;  // rank 0 prints
  int rounds = 9;
  bool use_fastest = false;         // report the fastest round instead of the median
  std::string only{};               // run only comparisons with this text in the title; empty: all
  std::function<void()> barrier{};  // called before each candidate runs
  RatioLimits* limits = nullptr;    // null: limits are not checked

  bool has(const std::string& title) const { return title.find(only) != std::string::npos; }
};

// Runs the candidates in turn; every rank must call this function. Rank 0 prints the median or the
// fastest round as measured by its own clock, with ratios to the first candidate, and checks the
// limits.
inline void run_comparison(const ComparisonPlan& plan, const std::string& title, int iterations,
                           const std::vector<Candidate>& candidates) {
  if (!plan.has(title)) return;
  std::vector<std::vector<double>> found(candidates.size());
  for (int round = 0; round <= plan.rounds; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      plan.barrier();
      const auto begin = std::chrono::steady_clock::now();
      for (int iteration = 0; iteration < iterations; ++iteration) candidates[i].operation();
      const std::chrono::duration<double, std::micro> elapsed =
          std::chrono::steady_clock::now() - begin;
      if (round > 0) found[i].push_back(elapsed.count() / iterations);  // round 0 is a warm-up
    }
  }
  if (plan.rank != 0) return;
  std::printf("%-22s", title.c_str());
  double first = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    std::sort(found[i].begin(), found[i].end());
    const double time_us = found[i][plan.use_fastest ? 0 : found[i].size() / 2];
    if (i == 0) first = time_us;
    std::printf("  %s %.3f us", candidates[i].name, time_us);
    if (i == 0) continue;
    const double ratio = time_us / first;
    std::printf(" (%.2f", ratio);
    const std::optional<double>& max_ratio = candidates[i].max_ratio;
    if (plan.limits != nullptr && max_ratio) {
      const bool is_met = plan.limits->check(title, ratio, *max_ratio);
      std::printf(is_met ? " <= %.2f" : " EXCEEDS %.2f", *max_ratio);
    }
    std::printf(")");
  }
  std::printf("\n");
  std::fflush(stdout);
}

// A barrier of compare-and-swap loops without deadline, failure detection or sleep. Loops yield the
// core if `must_yield`, for more ranks than cores. `slots` points to the memory of each rank, which
// has one zeroed cache line per source rank.
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
