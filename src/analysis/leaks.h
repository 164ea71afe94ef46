// SPDX-License-Identifier: Apache-2.0
//
// Leak detection: finds groups of allocations, such as those with the same stack, whose live bytes
// grow over the whole trace. The trace is divided into parts of equal length, and the floor of a
// group in a part is the minimum of its live bytes. A leak is a rising floor, which excludes steady
// use, one-time setup and periodic peaks. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/stack_index.h"

namespace ashlar {

// Allocations are grouped by stack or, if the trace has no stacks, by size class and stream.
struct LeakGroup {
  uint32_t stack = StackIndex::kNoStack;
  uint32_t size_class = 0;  // see size_class_of()
  StreamId stream{};
  friend auto operator<=>(const LeakGroup&, const LeakGroup&) = default;
};

struct Leak {
  LeakGroup group{};
  size_t live_bytes = 0;  // live bytes at the end of the trace
  size_t live_count = 0;
  size_t growth_bytes = 0;  // last floor minus first floor
  // Slopes of the regression lines through the floors, over time and over trace entries.
  std::optional<double> bytes_per_second{};  // unset: times are missing or do not advance
  double bytes_per_1000_entries = 0;
  double r_squared = 0;          // of the regression over entries; 1 is a perfect line
  double rising_fraction = 0;    // parts with a new highest floor, divided by parts after the first
  std::vector<size_t> floors{};  // the floor of each part of the trace, in order
};

struct LeakReport {
  bool has_stacks = false;
  size_t group_count = 0;     // all groups, leaking or not
  std::vector<Leak> leaks{};  // sorted by growth, largest first
};

struct LeakOptions {
  size_t part_count = 32;
  // Minimum growth, as a fraction of the peak of live bytes.
  double min_growth_fraction = 0.001;
  double min_r_squared = 0.8;
  // Minimum number of parts in which the floor rises above all earlier floors.
  size_t min_rising_parts = 4;
  // Polled regularly. If it returns false, the search ends early, and the report is incomplete.
  std::function<bool()> keep_going{};
};

// Finds the groups that leak. `stack_numbers` is the result of StackIndex::add() for the snapshot.
// REQUIRES: options.part_count > 1.
LeakReport find_leaks(const std::vector<TraceEntry>& trace, const Allocations& allocations,
                      const std::vector<uint32_t>& stack_numbers, const LeakOptions& options = {});

}  // namespace ashlar
