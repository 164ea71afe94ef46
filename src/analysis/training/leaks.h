// SPDX-License-Identifier: Apache-2.0
//
// Leak detection: compares the iterations of a run and finds groups of allocations, such as those
// of one line, whose live bytes grow with each iteration. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/stack_index.h"
#include "analysis/training/iterations.h"

namespace ashlar {

// Allocations are grouped by stack or, if the trace has no stacks, by size class and stream.
struct LeakGroup {
  uint32_t stack = StackIndex::kNoStack;  // from `stack_numbers` of find_leaks()
  uint32_t size_class = 0;                // see size_class_of()
  StreamId stream{};
  friend auto operator<=>(const LeakGroup&, const LeakGroup&) = default;
};

// A group that leaks: iterations keep allocations that later iterations do not free, or each
// iteration replaces an allocation with a larger one.
struct Leak {
  LeakGroup group{};
  double bytes_per_iteration = 0;
  size_t growth_bytes = 0;  // during the compared iterations
  // After the last compared iteration; excludes allocations from before the first one.
  size_t live_bytes = 0;
  size_t live_count = 0;
  std::vector<size_t> live_after{};  // live bytes after each compared iteration
};

struct LeakReport {
  static constexpr size_t kMinIterations = 3;

  // The number of complete iterations, which are compared. If it is less than kMinIterations,
  // `problem` says why leaks cannot be found, and `leaks` is empty.
  size_t iteration_count = 0;
  std::string problem{};

  bool has_stacks = false;
  size_t group_count = 0;     // of all groups, leaking or not
  std::vector<Leak> leaks{};  // sorted by growth, largest first

  bool has_enough_iterations() const { return problem.empty(); }
};

struct LeakOptions {
  // Polled regularly. If it returns false, the search ends early, and the report is incomplete.
  std::function<bool()> keep_going{};
};

// Finds the groups that leak. `stack_numbers` is the result of StackIndex::add() for the snapshot.
LeakReport find_leaks(const Allocations& allocations, const Iterations& iterations,
                      const std::vector<uint32_t>& stack_numbers, const LeakOptions& options = {});

}  // namespace ashlar
